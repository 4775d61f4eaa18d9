//! Declarations of SPIR-V on the memory that it uses.

use std::collections::{BTreeMap, BTreeSet};

const HEADER_WORDS: usize = 5;
const OP_TYPE_STRUCT: u32 = 30;
const OP_TYPE_POINTER: u32 = 32;
const OP_VARIABLE: u32 = 59;
const OP_DECORATE: u32 = 71;
const OP_MEMBER_DECORATE: u32 = 72;
const OP_DECORATION_GROUP: u32 = 73;
const DECORATION_NON_WRITABLE: u32 = 24;
const DECORATION_BINDING: u32 = 33;

/// Declarations of variables.
#[derive(Default)]
struct Declared {
    /// Variables with this binding.
    bound: BTreeSet<u32>,
    /// Variables and, with their number, members that are not written.
    kept: BTreeSet<(u32, Option<u32>)>,
    /// The types of variables, all of them pointers.
    variables: BTreeMap<u32, u32>,
    /// Types that pointers point to.
    pointers: BTreeMap<u32, u32>,
    /// Number of members of each structure.
    structures: BTreeMap<u32, u32>,
    /// Decorations are declared in a way that is not looked through here.
    grouped: bool,
}

/// Returns true if the words, whose instructions are whole, may write to what is bound there:
/// unless the variable, or all that is in it, is declared as not written.
pub(crate) fn may_write(words: &[u32], binding: u32) -> bool {
    let declared = read(words, binding);
    declared.grouped || !declared.bound.iter().all(|variable| declared.is_kept(*variable))
}

fn read(words: &[u32], binding: u32) -> Declared {
    let mut declared = Declared::default();
    let mut rest = words.get(HEADER_WORDS..).unwrap_or_default();
    while let Some(first) = rest.first() {
        let (length, code) = ((first >> 16) as usize, first & 0xffff);
        let Some(operands) = rest.get(1..length) else { break };
        match (code, operands) {
            (OP_DECORATE, [of, DECORATION_BINDING, number]) if *number == binding => {
                declared.bound.insert(*of);
            }
            (OP_DECORATE, [of, DECORATION_NON_WRITABLE]) => {
                declared.kept.insert((*of, None));
            }
            (OP_MEMBER_DECORATE, [of, member, DECORATION_NON_WRITABLE]) => {
                declared.kept.insert((*of, Some(*member)));
            }
            (OP_DECORATION_GROUP, _) => declared.grouped = true,
            (OP_TYPE_STRUCT, [result, members @ ..]) => {
                declared.structures.insert(*result, members.len() as u32);
            }
            (OP_TYPE_POINTER, [result, _, to]) => {
                declared.pointers.insert(*result, *to);
            }
            (OP_VARIABLE, [kind, result, ..]) => {
                declared.variables.insert(*result, *kind);
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    declared
}

impl Declared {
    fn is_kept(&self, variable: u32) -> bool {
        let structure = self.variables.get(&variable).and_then(|kind| self.pointers.get(kind));
        let members = structure.and_then(|of| Some((of, self.structures.get(of)?)));
        let all_kept = members.is_some_and(|(of, count)| {
            (0..*count).all(|member| self.kept.contains(&(*of, Some(member))))
        });
        all_kept || self.kept.contains(&(variable, None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{Checks, translate};

    fn input(access: &str) -> Vec<u32> {
        let text = format!(
            "@group(0) @binding(0) var<storage, {access}> input: array<u32>;
             @group(0) @binding(1) var<storage, read_write> output: array<u32>;
             @compute @workgroup_size(1) fn go() {{ output[0] = input[0]; }}"
        );
        translate(&text, "go", Checks::Added).unwrap()
    }

    #[test]
    fn what_is_declared_as_read_only_is_not_written() {
        assert!(!may_write(&input("read"), 0));
        assert!(may_write(&input("read_write"), 0));
        assert!(may_write(&input("read"), 1));
        // The shader has no such binding.
        assert!(!may_write(&input("read_write"), 7));
        for length in 0..input("read").len() {
            // Cut anywhere, it is read to its end and no further.
            let _ = may_write(&input("read")[..length], 0);
        }
    }

    #[test]
    fn members_that_are_all_read_only_are_not_written() {
        let word = |length: u32, code: u32| length << 16 | code;
        let binding = [word(4, OP_DECORATE), 9, DECORATION_BINDING, 0];
        let member = |number| [word(4, OP_MEMBER_DECORATE), 5, number, DECORATION_NON_WRITABLE];
        let types = [
            [word(4, OP_TYPE_STRUCT), 5, 2, 3],
            [word(4, OP_TYPE_POINTER), 6, 12, 5],
            [word(4, OP_VARIABLE), 6, 9, 12],
        ];
        let module = |parts: &[[u32; 4]]| [&[0; HEADER_WORDS], parts.as_flattened()].concat();
        let [structure, pointer, variable] = types;
        let declared = [binding, member(0), member(1), structure, pointer, variable];
        assert!(!may_write(&module(&declared), 0));
        assert!(may_write(&module(&[&declared[..2], &declared[3..]].concat()), 0));
        let grouped = [word(2, OP_DECORATION_GROUP), 17];
        assert!(may_write(&[module(&declared), grouped.to_vec()].concat(), 0));
    }
}
