//! Kernels on their way to SPIR-V, and what is checked of SPIR-V that comes ready.

use crate::{Module, Source};
use naga::back::spv;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{Module as Parsed, ShaderStage};

/// Bindings of a kernel, all in set 0: input, output, arguments.
pub(crate) const BINDINGS: u32 = 3;

const MAGIC: u32 = 0x0723_0203;
const HEADER_WORDS: usize = 5;
const OP_ENTRY_POINT: u32 = 15;
const OP_DECORATE: u32 = 71;
const GL_COMPUTE: u32 = 5;
const DECORATION_BINDING: u32 = 33;
const DECORATION_SET: u32 = 34;
/// The newest SPIR-V that Vulkan 1.2 takes, as the header has it.
const NEWEST: u32 = 0x0001_0500;

/// Limits of a device for a work group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub float64: bool,
    pub invocations: u32,
    pub size: [u32; 3],
}

/// The SPIR-V of a module.
///
/// # Errors
/// The fault of the module.
pub(crate) fn compile(module: &Module, limits: Limits) -> Result<Vec<u32>, String> {
    match &module.source {
        Source::Wgsl(text) => translate_module(text, &module.entry, limits),
        Source::Spirv(words) => {
            check_words(words, &module.entry)?;
            Ok(words.clone())
        }
    }
}

/// Checks that a translation adds to a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checks {
    /// An index beyond a buffer or an array becomes the largest one, and the memory of a work
    /// group is zero at first.
    Added,
    /// Nothing: the text has to see to it that no index is beyond, and to write before it reads.
    Omitted,
}

/// Translates WGSL to SPIR-V 1.3. A variable of it in the address space `immediate` becomes a push
/// constant.
///
/// # Errors
/// The fault of the text, with its place.
pub fn translate(text: &str, entry: &str, checks: Checks) -> Result<Vec<u32>, String> {
    write(&parse(text)?, text, entry, Capabilities::IMMEDIATES, checks)
}

/// Translates the WGSL of a module. Accesses beyond a buffer are clamped.
fn translate_module(text: &str, entry: &str, limits: Limits) -> Result<Vec<u32>, String> {
    let module = parse(text)?;
    check_interface(&module, entry, limits)?;
    let capabilities = if limits.float64 { Capabilities::FLOAT64 } else { Capabilities::empty() };
    write(&module, text, entry, capabilities, Checks::Added)
}

fn parse(text: &str) -> Result<Parsed, String> {
    naga::front::wgsl::parse_str(text)
        .map_err(|error| error.emit_to_string(text).trim_end().to_owned())
}

fn write(
    module: &Parsed,
    text: &str,
    entry: &str,
    capabilities: Capabilities,
    checks: Checks,
) -> Result<Vec<u32>, String> {
    let info = Validator::new(ValidationFlags::all(), capabilities)
        .validate(module)
        .map_err(|error| error.emit_to_string(text).trim_end().to_owned())?;
    let (policy, zeros) = match checks {
        Checks::Added => {
            (BoundsCheckPolicy::Restrict, spv::ZeroInitializeWorkgroupMemoryMode::Polyfill)
        }
        Checks::Omitted => {
            (BoundsCheckPolicy::Unchecked, spv::ZeroInitializeWorkgroupMemoryMode::None)
        }
    };
    let bounds_check_policies =
        BoundsCheckPolicies { index: policy, buffer: policy, ..BoundsCheckPolicies::default() };
    let options = spv::Options {
        lang_version: (1, 3),
        flags: spv::WriterFlags::empty(),
        // "Fake" bindings are those of the text, which were checked.
        fake_missing_bindings: true,
        bounds_check_policies,
        zero_initialize_workgroup_memory: zeros,
        // Bounded loops are none that end in time; they only cost.
        force_loop_bounding: false,
        ..spv::Options::default()
    };
    let point =
        spv::PipelineOptions { shader_stage: ShaderStage::Compute, entry_point: entry.into() };
    spv::write_vec(module, &info, &options, Some(&point)).map_err(|error| error.to_string())
}

fn check_interface(module: &Parsed, entry: &str, limits: Limits) -> Result<(), String> {
    let is_it =
        |point: &&naga::EntryPoint| point.name == entry && point.stage == ShaderStage::Compute;
    let point = module.entry_points.iter().find(is_it).ok_or_else(|| no_entry(entry))?;
    let size = point.workgroup_size;
    let invocations: u64 = size.iter().map(|one| u64::from(*one)).product();
    let fits = size.iter().zip(limits.size).all(|(one, limit)| *one <= limit)
        && invocations <= limits.invocations.into();
    if !fits {
        let Limits { invocations, size: most, .. } = limits;
        return Err(format!(
            "work groups of {size:?}, expected at most {most:?}, {invocations} in all"
        ));
    }
    for (_, variable) in module.global_variables.iter() {
        let Some(binding) = variable.binding else { continue };
        let is_uniform = variable.space == naga::AddressSpace::Uniform;
        let is_storage = matches!(variable.space, naga::AddressSpace::Storage { .. });
        let fits = match binding.binding {
            0 | 1 => is_storage,
            _ => is_uniform,
        };
        if binding.group != 0 || binding.binding >= BINDINGS || !fits {
            return Err(bad_binding(binding.group, binding.binding));
        }
    }
    Ok(())
}

/// Checks what a pipeline relies on, without reading beyond the words.
fn check_words(words: &[u32], entry: &str) -> Result<(), String> {
    if words.len() <= HEADER_WORDS || words[0] != MAGIC {
        return Err("not SPIR-V (in the byte order of this machine)".into());
    }
    if words[1] > NEWEST {
        let (major, minor) = (words[1] >> 16 & 0xff, words[1] >> 8 & 0xff);
        return Err(format!("SPIR-V {major}.{minor}, expected at most 1.5"));
    }
    let mut found = false;
    let mut rest = &words[HEADER_WORDS..];
    while let Some(first) = rest.first() {
        let (length, code) = ((first >> 16) as usize, first & 0xffff);
        let Some(operands) = rest.get(1..length) else {
            return Err("the last SPIR-V instruction is truncated".into());
        };
        match (code, operands) {
            (OP_ENTRY_POINT, [GL_COMPUTE, _, name @ ..]) => found |= literal(name) == entry,
            (OP_DECORATE, [_, DECORATION_BINDING, binding]) if *binding >= BINDINGS => {
                return Err(bad_binding(0, *binding));
            }
            (OP_DECORATE, [_, DECORATION_SET, set]) if *set != 0 => {
                return Err(format!("descriptor set {set}, expected set 0"));
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    if found { Ok(()) } else { Err(no_entry(entry)) }
}

/// The text at the start of these operands.
fn literal(words: &[u32]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn no_entry(entry: &str) -> String {
    format!("there is no compute entry point {entry:?}")
}

fn bad_binding(group: u32, binding: u32) -> String {
    format!(
        "binding {binding} of group {group}, expected storage buffers at bindings 0 and 1 and a \
         uniform buffer at 2, all of group 0"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { float64: false, invocations: 256, size: [256, 256, 64] };

    #[test]
    fn spirv_is_checked_without_reading_beyond_it() {
        let good =
            translate_module("@compute @workgroup_size(1) fn go() {}", "go", LIMITS).unwrap();
        assert_eq!(check_words(&good, "go"), Ok(()));
        assert!(check_words(&good, "g").unwrap_err().contains("\"g\""));
        for length in 0..good.len() {
            // Cut anywhere, it is either refused or cut between two instructions.
            let _ = check_words(&good[..length], "go");
        }
        assert!(check_words(&good[1..], "go").is_err());
        let endless = [MAGIC, 0x1_0000, 0, 1, 0, 0];
        assert!(check_words(&endless, "go").unwrap_err().contains("truncated"));
        let newer = [MAGIC, 0x1_0600, 0, 1, 0, 0x1_0000];
        assert!(check_words(&newer, "go").unwrap_err().contains("1.6"));
    }

    #[test]
    fn what_a_pipeline_would_not_have_is_refused() {
        let third = "@group(0) @binding(3) var<storage> x: array<u32>;
                     @compute @workgroup_size(1) fn go() { _ = x[0]; }";
        assert!(translate_module(third, "go", LIMITS).unwrap_err().contains("binding 3"));
        let large = "@compute @workgroup_size(257) fn go() {}";
        assert!(translate_module(large, "go", LIMITS).unwrap_err().contains("257"));
        let double = "@compute @workgroup_size(1) fn go() { var x = f64(1.0); }";
        assert!(translate_module(double, "go", LIMITS).is_err());
        assert!(translate_module(double, "go", Limits { float64: true, ..LIMITS }).is_ok());
        let pushed = "var<immediate> x: u32;
                      @compute @workgroup_size(1) fn go() { _ = x; }";
        assert!(translate_module(pushed, "go", LIMITS).is_err());
        assert!(translate(pushed, "go", Checks::Added).is_ok());
    }
}
