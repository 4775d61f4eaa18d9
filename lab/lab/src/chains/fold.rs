//! Map from the cores of the system file to the cores of this machine.
//!
//! If this process may use every core that the file names, each stands for itself. Otherwise
//! the file is folded: accelerators and the server onto the first core that may be used, the
//! cores of the executors in turn onto the remaining ones. A map from the command line overrules
//! both. Folding changes what is measured, so it is never silent.

use std::collections::{BTreeMap, BTreeSet};

use system::{DeviceKind, System};

/// Cores of accelerators, server and executors on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cores {
    /// Cores of each accelerator; empty leaves the choice to the kernel.
    pub accelerators: BTreeMap<String, Vec<usize>>,
    /// Cores of the server's own threads; empty leaves the choice to the kernel.
    pub server: Vec<usize>,
    /// The core of each executor, in the order of the file.
    pub executors: Vec<usize>,
    /// Marks of changes that matter.
    pub marks: Vec<String>,
}

impl Cores {
    /// Every core that something is kept on.
    pub(crate) fn used(&self) -> BTreeSet<usize> {
        let accelerators = self.accelerators.values().flatten();
        accelerators.chain(&self.server).chain(&self.executors).copied().collect()
    }

    /// The accelerators' cores for one of so many processes that each have devices of their own.
    ///
    /// The cores of a GPU only wait for it. Programs that know nothing of each other wait each on a
    /// core of its own, so each process gets its part, as far as there are as many; on a core that
    /// several share, the thread that looks for the end of its own work would keep the others from
    /// submitting theirs. The cores of other devices do the work, and stay one device's.
    pub(crate) fn of_process(
        &self,
        system: &System,
        (number, count): (usize, usize),
    ) -> BTreeMap<String, Vec<usize>> {
        let only_wait = |id: &str| {
            let accelerator = system.accelerators.iter().find(|accelerator| accelerator.id == id);
            matches!(
                accelerator.map(|a| a.device),
                Some(DeviceKind::Cuda(_) | DeviceKind::Vulkan(_))
            )
        };
        let part = |(id, cores): (&String, &Vec<usize>)| {
            let own = match cores.len() {
                0 => Vec::new(),
                _ if !only_wait(id) => cores.clone(),
                have => cores.iter().skip(number % have).step_by(count.max(1)).copied().collect(),
            };
            (id.clone(), own)
        };
        self.accelerators.iter().map(part).collect()
    }
}

/// Places a system on the cores that may be used here.
///
/// # Errors
/// Says which core of the map or of the file cannot be had.
pub(crate) fn place(
    system: &System,
    allowed: &[usize],
    map: &[(u32, usize)],
) -> Result<Cores, anyhow::Error> {
    anyhow::ensure!(!allowed.is_empty(), "this process may not use any core");
    let named = Named::of(system);
    let all: BTreeSet<u32> = named.compute.union(&named.executors).copied().collect();
    let here = |core: &u32| allowed.contains(&(*core as usize));
    let mut cores = if !map.is_empty() {
        let map = checked(map, &all, allowed, &system.name)?;
        let mut cores = place_by(system, |core| map[&core], |core| map[&core]);
        cores.marks.extend(moved(&map));
        cores
    } else if all.iter().all(here) {
        place_by(system, |core| core as usize, |core| core as usize)
    } else {
        fold(system, &named, allowed)
    };
    cores.marks.extend(equal_priorities(system, &cores));
    Ok(cores)
}

/// The cores that the file names.
struct Named {
    /// Cores of accelerators and the server.
    compute: BTreeSet<u32>,
    executors: BTreeSet<u32>,
}

impl Named {
    fn of(system: &System) -> Named {
        let accelerators = system.accelerators.iter().flat_map(|accelerator| &accelerator.cores);
        Named {
            compute: accelerators.chain(&system.server.cores).copied().collect(),
            executors: system.executors.iter().map(|executor| executor.core).collect(),
        }
    }
}

/// Completes a map: cores that it leaves out stand for themselves.
fn checked(
    map: &[(u32, usize)],
    named: &BTreeSet<u32>,
    allowed: &[usize],
    file: &str,
) -> Result<BTreeMap<u32, usize>, anyhow::Error> {
    let mut complete = BTreeMap::new();
    for &(core, target) in map {
        anyhow::ensure!(
            named.contains(&core),
            "--map {core}={target}: found core {core}, expected one that {file} names: {named:?}"
        );
        anyhow::ensure!(
            allowed.contains(&target),
            "--map {core}={target}: found core {target}, expected one that this process may use: \
             {allowed:?}"
        );
        let twice = complete.insert(core, target).is_some();
        anyhow::ensure!(!twice, "--map: found core {core} twice, expected it once");
    }
    for &core in named {
        let itself = core as usize;
        anyhow::ensure!(
            complete.contains_key(&core) || allowed.contains(&itself),
            "--map: found nothing for core {core} of {file}, expected {core}=CORE, with one of \
             {allowed:?}"
        );
        complete.entry(core).or_insert(itself);
    }
    Ok(complete)
}

fn moved(map: &BTreeMap<u32, usize>) -> Option<String> {
    let moved = map.iter().filter(|(core, target)| **core as usize != **target);
    let moved: Vec<String> = moved.map(|(core, target)| format!("{core} to {target}")).collect();
    (!moved.is_empty()).then(|| format!("cores of the file were mapped: {}", moved.join(", ")))
}

fn place_by(
    system: &System,
    compute: impl Fn(u32) -> usize,
    executor: impl Fn(u32) -> usize,
) -> Cores {
    let place = |cores: &[u32]| {
        let mut places = Vec::new();
        for place in cores.iter().map(|&core| compute(core)) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    };
    let mut cores = Cores {
        server: place(&system.server.cores),
        executors: system.executors.iter().map(|e| executor(e.core)).collect(),
        ..Cores::default()
    };
    for accelerator in &system.accelerators {
        let places = place(&accelerator.cores);
        let (units, left) = (accelerator.cores.len(), places.len());
        if left < units {
            let id = &accelerator.id;
            cores.marks.push(format!("{id} has {left} of its {units} compute threads"));
        }
        cores.accelerators.insert(accelerator.id.clone(), places);
    }
    cores
}

fn fold(system: &System, named: &Named, allowed: &[usize]) -> Cores {
    let first = allowed[0];
    let rest = if allowed.len() > 1 { &allowed[1..] } else { allowed };
    let turn = |core| named.executors.range(..core).count() % rest.len();
    let mut cores = place_by(system, |_| first, |core| rest[turn(core)]);
    // Threads that the file leaves to the kernel must not land on the few cores of the executors.
    cores.server = vec![first];
    cores.accelerators.values_mut().for_each(|places| *places = vec![first]);
    cores.marks.insert(0, folded(system, named, first, rest));
    cores
}

fn folded(system: &System, named: &Named, first: usize, rest: &[usize]) -> String {
    let count = named.compute.union(&named.executors).count();
    let ids: Vec<&str> = system.accelerators.iter().map(|a| a.id.as_str()).collect();
    let names = ids.join(", ");
    if rest.contains(&first) {
        return format!(
            "folded {count} cores onto one: {names}, the server and all executors share core {first}"
        );
    }
    let groups = rest.iter().enumerate().filter_map(|(turn, core)| {
        let of_file = named.executors.iter().skip(turn).step_by(rest.len());
        let of_file: Vec<String> = of_file.map(u32::to_string).collect();
        let many = if of_file.len() == 1 { "core" } else { "cores" };
        let from = of_file.join(", ");
        (!of_file.is_empty()).then(|| format!("executors of {many} {from} on core {core}"))
    });
    let groups: Vec<String> = groups.collect();
    format!(
        "folded {count} cores onto {}: {names} and the server on core {first}, {}",
        1 + groups.len(),
        groups.join(", ")
    )
}

/// Executors that the file keeps apart may meet on one core without an order between them.
fn equal_priorities(system: &System, cores: &Cores) -> Vec<String> {
    let mut groups: BTreeMap<(usize, u32), Vec<&str>> = BTreeMap::new();
    for (executor, &core) in system.executors.iter().zip(&cores.executors) {
        if executor.priority > 0 {
            groups.entry((core, executor.priority)).or_default().push(&executor.id);
        }
    }
    let equal = groups.into_iter().filter(|(_, ids)| ids.len() > 1);
    equal
        .map(|((core, priority), ids)| {
            let ids = ids.join(", ");
            format!("{ids} share core {core} at priority {priority}: none preempts another")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(text: &str) -> System {
        System::parse(text, "test.yaml").unwrap()
    }

    fn wide() -> System {
        system(
            "accelerators: [{id: gpu0, buckets: 2, cores: [0]}]\n\
             server: {cores: [0]}\n\
             executors:\n\
             - {id: e1, core: 2, priority: 9}\n\
             - {id: e2, core: 3, priority: 8}\n\
             - {id: e3, core: 4, priority: 9}\n\
             - {id: e4, core: 2, priority: 1}\n",
        )
    }

    #[test]
    fn cores_that_all_exist_stay() {
        let cores = place(&wide(), &[0, 1, 2, 3, 4], &[]).unwrap();
        assert_eq!(cores.executors, [2, 3, 4, 2]);
        assert_eq!(cores.accelerators["gpu0"], [0]);
        assert_eq!(cores.server, [0]);
        assert!(cores.marks.is_empty(), "{:?}", cores.marks);
        assert!(cores.used().into_iter().eq([0, 2, 3, 4]));
    }

    #[test]
    fn missing_core_folds_executors_in_turn_onto_the_remaining_cores() {
        let cores = place(&wide(), &[1, 5, 6], &[]).unwrap();
        assert_eq!(cores.executors, [5, 6, 5, 5]);
        assert_eq!((&cores.accelerators["gpu0"], &cores.server), (&vec![1], &vec![1]));
        let folded = "folded 4 cores onto 3: gpu0 and the server on core 1, executors of cores \
                      2, 4 on core 5, executors of core 3 on core 6";
        assert_eq!(cores.marks[0], folded);
        assert_eq!(cores.marks[1], "e1, e3 share core 5 at priority 9: none preempts another");
    }

    #[test]
    fn one_core_takes_everything() {
        let cores = place(&wide(), &[0], &[]).unwrap();
        assert_eq!(cores.executors, [0; 4]);
        assert!(cores.used().into_iter().eq([0]));
        assert!(cores.marks[0].contains("share core 0"), "{:?}", cores.marks);
    }

    #[test]
    fn fold_keeps_free_compute_threads_off_the_executors() {
        let free = system(
            "accelerators: [{id: gpu0, buckets: 2}]\nexecutors: [{id: e1, core: 7, priority: 1}]",
        );
        assert!(place(&free, &[0, 7], &[]).unwrap().accelerators["gpu0"].is_empty());
        let folded = place(&free, &[0, 1], &[]).unwrap();
        assert_eq!((&folded.accelerators["gpu0"], &folded.executors), (&vec![0], &vec![1]));
    }

    #[test]
    fn map_overrules_and_leaves_the_other_cores() {
        let cores = place(&wide(), &[0, 1, 2, 4], &[(3, 1), (0, 4)]).unwrap();
        assert_eq!(cores.executors, [2, 1, 4, 2]);
        assert_eq!(cores.accelerators["gpu0"], [4]);
        assert_eq!(cores.marks, ["cores of the file were mapped: 0 to 4, 3 to 1"]);
    }

    #[test]
    fn processes_wait_for_a_gpu_on_cores_of_their_own() {
        let both = system(
            "accelerators: [{id: gpu0, buckets: 2, cores: [1, 2, 3], device: cuda:0},\n\
             {id: cpu0, buckets: 1, cores: [4, 5]}, {id: gpu1, buckets: 1, device: cuda:1}]",
        );
        let cores = place(&both, &[0, 1, 2, 3, 4, 5], &[]).unwrap();
        let cores_of = |id: &str, process| cores.of_process(&both, process)[id].clone();
        let all = |count| (0..count).map(|n| cores_of("gpu0", (n, count))).collect::<Vec<_>>();
        assert_eq!(all(1), [[1, 2, 3]]);
        assert_eq!(all(2), [vec![1, 3], vec![2]]);
        assert_eq!(all(4), [[1], [2], [3], [1]]);
        assert_eq!((cores_of("cpu0", (1, 2)), cores_of("gpu1", (1, 2))), (vec![4, 5], vec![]));
    }

    #[test]
    fn bad_maps_are_refused_with_what_was_expected() {
        let refusal = |map: &[(u32, usize)]| {
            place(&wide(), &[0, 1], map).map(|_| ()).unwrap_err().to_string()
        };
        assert!(refusal(&[(9, 0)]).contains("expected one that test.yaml names"));
        assert!(refusal(&[(2, 9)]).contains("expected one that this process may use: [0, 1]"));
        assert!(refusal(&[(2, 0), (2, 1)]).contains("found core 2 twice"));
        assert!(refusal(&[(2, 0), (3, 1)]).contains("found nothing for core 4 of test.yaml"));
    }

    #[test]
    fn lost_compute_threads_are_told() {
        let many = system("accelerators: [{id: gpu0, buckets: 2, cores: [4, 5, 6]}]");
        let cores = place(&many, &[0, 1], &[]).unwrap();
        assert!(cores.marks.contains(&"gpu0 has 1 of its 3 compute threads".to_owned()));
    }
}
