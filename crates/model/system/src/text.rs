//! A file with its text: what an assignment changes is changed in the text, and nothing else.

use crate::{Error, System};
use files::{Edits, Step, Tree};
use std::path::Path;

/// A system and the text that says so. Priorities may be missing in it, as in a draft.
#[derive(Debug, Clone)]
pub struct SystemText {
    /// The system; priorities that are missing are filled in.
    pub system: System,
    tree: Tree,
    text: String,
}

/// Steps to the entry of a section.
fn item(section: &str, index: usize) -> [Step<'_>; 2] {
    [Step::Key(section), Step::Index(index)]
}

impl SystemText {
    /// Reads and checks the file at `path`, a draft or not.
    ///
    /// # Errors
    /// Those of [`System::read`].
    pub fn read(path: impl AsRef<Path>) -> Result<SystemText, Error> {
        let file = path.as_ref().display().to_string();
        match files::text(path.as_ref(), crate::read::MAX_BYTES) {
            Ok(text) => SystemText::parse(text, &file),
            Err(reason) => Err(Error::Read { file, reason }),
        }
    }

    /// Parses and checks a text, a draft or not.
    ///
    /// # Errors
    /// Those of [`System::parse`].
    pub fn parse(text: String, name_of_file: &str) -> Result<SystemText, Error> {
        let text =
            if let Some(rest) = text.strip_prefix('\u{feff}') { rest.to_owned() } else { text };
        let tree = Tree::parse(&text, name_of_file)?;
        Ok(SystemText { system: System::from_tree(&tree, name_of_file, true)?, tree, text })
    }

    /// Returns true if the file gives this chain its priority.
    pub fn has_priority(&self, chain: usize) -> bool {
        self.tree.required_key(&item("chains", chain), "priority").is_ok()
    }

    /// Returns true if the file gives this executor its priority.
    pub fn has_process_priority(&self, executor: usize) -> bool {
        self.tree.required_key(&item("executors", executor), "priority").is_ok()
    }

    /// The text with the priorities, buckets and accelerators of a model, which was made of this
    /// system. Everything that does not change stays, byte for byte.
    ///
    /// # Errors
    /// [`Error::Content`] where the text does not allow it, as where an alias stands for a value that
    /// changes.
    pub fn assigned(&self, model: &analysis::System) -> Result<String, Error> {
        // Buckets that follow from the priorities need not be written.
        for all_buckets in [false, true] {
            let text = self.changed(model, all_buckets)?;
            let read = System::parse(&text, &self.system.name);
            if read.is_ok_and(|system| system.model() == *model) {
                return Ok(text);
            }
        }
        let expected = "values of which each stands for one chain or executor, and no bucket_from";
        Err(self.tree.refuse(&[], "values that decide together", expected))
    }

    fn changed(&self, model: &analysis::System, all_buckets: bool) -> Result<String, Error> {
        let mut edits = Edits::new(&self.tree, &self.text);
        for (index, assigned) in model.executors.iter().enumerate() {
            if !self.has_process_priority(index)
                || self.system.executors[index].priority != assigned.priority
            {
                let priority = assigned.priority.to_string();
                edits.set(&item("executors", index), "priority", &priority)?;
            }
        }
        for (index, assigned) in model.chains.iter().enumerate() {
            self.change_buckets(&mut edits, index, assigned, all_buckets)?;
            if !self.has_priority(index) || self.system.chains[index].priority != assigned.priority
            {
                let priority = assigned.priority.to_string();
                edits.set(&item("chains", index), "priority", &priority)?;
            }
            self.change_accelerators(&mut edits, index, assigned)?;
        }
        Ok(edits.finish())
    }

    fn change_buckets(
        &self,
        edits: &mut Edits<'_>,
        index: usize,
        assigned: &analysis::Chain,
        all_buckets: bool,
    ) -> Result<(), Error> {
        let chain = &self.system.chains[index];
        let path = item("chains", index);
        let is_json = self.text.trim_start().starts_with('{');
        let ids = self.system.accelerators.iter().map(|a| a.id.as_str()).enumerate();
        let used: Vec<(&str, u32)> = ids
            .filter(|(accelerator, _)| assigned.uses(*accelerator))
            .map(|(accelerator, id)| (id, assigned.buckets[accelerator]))
            .collect();
        if chain.bucket.is_empty() {
            if all_buckets && !used.is_empty() {
                let entry =
                    |(id, bucket): &(&str, u32)| format!("{}: {bucket}", files::name(id, is_json));
                let entries: Vec<String> = used.iter().map(entry).collect();
                edits.set(&path, "bucket", &format!("{{{}}}", entries.join(", ")))?;
            }
            return Ok(());
        }
        let within = [&path[..], &[Step::Key("bucket")]].concat();
        for (id, bucket) in used {
            let given = chain.bucket.get(id);
            if given.is_some_and(|given| *given != bucket) || (given.is_none() && all_buckets) {
                edits.set(&within, id, &bucket.to_string())?;
            }
        }
        Ok(())
    }

    /// A segment that moves keeps no service, because a service belongs to one accelerator.
    fn change_accelerators(
        &self,
        edits: &mut Edits<'_>,
        index: usize,
        assigned: &analysis::Chain,
    ) -> Result<(), Error> {
        let mut moved = assigned.segments();
        for (c, callback) in self.system.chains[index].callbacks.iter().enumerate() {
            for (s, segment) in callback.segments.iter().enumerate() {
                let Some(now) = moved.next() else { return Ok(()) };
                let id = &self.system.accelerators[now.accelerator].id;
                if segment.accel != *id {
                    let [chains, chain] = item("chains", index);
                    let [callbacks, callback] = item("callbacks", c);
                    let [segments, segment] = item("segments", s);
                    let path = [chains, chain, callbacks, callback, segments, segment];
                    edits.set(&path, "accel", &files::name(id, true))?;
                    edits.remove(&path, "service")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# A robot of two processes. Ask Kim before you change the cores.
accelerators:
  - {id: gpu0, buckets: 2} # the only one
executors:
  - {id: front, core: 1, priority: 80}
  - {id: rear, core: 2} # to be found
chains:
  - id: map          # slow
    priority: 7      # was 3
    period: 500 ms

    callbacks: [{id: build, executor: rear, cpu: 20 ms, segments: [{accel: gpu0, exec: 40 ms}]}]
  # The urgent one.
  - id: brake
    priority: 2
    period: 120 ms
    bucket: {gpu0: 0}
    callbacks: [{id: see, executor: front, cpu: 2 ms, segments: [{accel: gpu0, exec: 10 ms}]}]
";

    #[test]
    fn comments_stay_byte_for_byte() {
        let source = SystemText::parse(FILE.to_owned(), "robot.yaml").unwrap();
        assert!(source.has_priority(0) && !source.has_process_priority(1));
        let mut model = source.system.model();
        model.executors[1].priority = 70;
        (model.chains[0].priority, model.chains[1].priority) = (2, 7);
        (model.chains[0].buckets[0], model.chains[1].buckets[0]) = (0, 1);
        let text = source.assigned(&model).unwrap();
        let expected = FILE
            .replace("{id: rear, core: 2}", "{id: rear, priority: 70, core: 2}")
            .replace("priority: 7      #", "priority: 2      #")
            .replace("priority: 2\n", "priority: 7\n")
            .replace("bucket: {gpu0: 0}", "bucket: {gpu0: 1}");
        assert_eq!(text, expected);
    }

    #[test]
    fn buckets_are_written_where_priorities_do_not_give_them() {
        let text = FILE.replace("    bucket: {gpu0: 0}\n", "");
        let source = SystemText::parse(text.clone(), "robot.yaml").unwrap();
        let mut model = source.system.model();
        model.chains[0].buckets[0] = 1;
        model.chains[1].buckets[0] = 1;
        let found = source.assigned(&model).unwrap();
        assert!(found.contains("- id: map          # slow\n    bucket: {gpu0: 1}\n"), "{found}");
        assert!(found.contains("- id: brake\n    bucket: {gpu0: 1}\n"), "{found}");
    }

    #[test]
    fn value_that_stands_for_two_is_refused() {
        let text = FILE.replace("core: 1, priority: 80", "core: 1, priority: &p 80");
        let text = text.replace("{id: rear, core: 2}", "{id: rear, core: 2, priority: *p}");
        let source = SystemText::parse(text, "robot.yaml").unwrap();
        let mut model = source.system.model();
        model.executors[1].priority = 70;
        let error = source.assigned(&model).unwrap_err().to_string();
        assert!(error.contains("expected a value that can be changed in its place"), "{error}");
    }
}
