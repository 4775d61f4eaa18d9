//! Kernels by names that people can read.
//!
//! A kernel's name is mangled C++, hundreds of letters for a template. What identifies it to a
//! reader is the last name before its template arguments, and the first of these if it is a named
//! type, as in `Kernel2<cutlass_80_simt_sgemm_128x64>`. No more than that is read of the mangling
//! (Itanium C++ ABI, 5.1); what it does not fit is shown as it is, cut.

use late::graph::Kernel;

/// Letters of a name that are shown.
const MOST: usize = 48;

/// A kernel in a sentence.
pub(super) fn kernel_name(kernel: &Kernel) -> String {
    match &kernel.name {
        Some(name) => short(name),
        None => format!("the kernel at {:#x}", kernel.handle),
    }
}

/// `elementwise_kernel` of `_ZN2at6native18elementwise_kernelILi128E...`.
pub(super) fn short(name: &str) -> String {
    let whole = plain(name).unwrap_or_else(|| name.to_owned());
    if whole.chars().count() <= MOST {
        return whole;
    }
    whole.chars().take(MOST - 1).chain(['…']).collect()
}

fn plain(name: &str) -> Option<String> {
    let rest = name.strip_prefix("_Z")?;
    let rest = rest.strip_prefix('N').unwrap_or(rest);
    let (mut last, mut rest) = identifier(rest)?;
    while let Some((next, after)) = identifier(rest) {
        (last, rest) = (next, after);
    }
    let argument = rest.strip_prefix('I').and_then(identifier);
    Some(match argument {
        Some((argument, _)) => format!("{last}<{argument}>"),
        None => last.to_owned(),
    })
}

/// A length and so many letters, and what comes after them.
fn identifier(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = text[..digits].parse().ok()?;
    text[digits..].split_at_checked(length).filter(|(letters, _)| !letters.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mangled_names_become_the_name_before_the_template_arguments() {
        for (name, expected) in [
            ("gemm", "gemm"),
            ("_Z6kernelPfi", "kernel"),
            ("_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpuEEEvRNS", "elementwise_kernel"),
            ("_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c4CopyINS1_10OpaqueE", "Copy"),
            (
                "_ZN7cutlass7Kernel2I19cutlass_80_simt_sgeEEvNT_6ParamsE",
                "Kernel2<cutlass_80_simt_sge>",
            ),
            ("_ZN", "_ZN"),
            ("_Z99short", "_Z99short"),
            ("_Z4äx", "_Z4äx"),
            ("_Z99999999999999999999999999x", "_Z99999999999999999999999999x"),
        ] {
            assert_eq!(short(name), expected);
        }
        assert_eq!(short(&"k".repeat(49)), format!("{}…", "k".repeat(47)));
        assert_eq!(short(&"k".repeat(48)), "k".repeat(48));
    }
}
