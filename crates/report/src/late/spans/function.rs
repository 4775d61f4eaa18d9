//! The driver's functions by number: what they are called, and what the detail of a call is.

use record::cuda::{Category, FUNCTIONS};
use std::collections::HashMap;

/// Meaning of a call's detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::late) enum Detail {
    /// A kernel's handle.
    Kernel,
    /// An executable graph.
    Graph,
    /// Bytes, with what is known of the host's memory.
    Bytes,
    /// Nothing of interest.
    Nothing,
}

/// One function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::late) struct Function<'t> {
    /// Its name, without version and variant.
    pub name: &'t str,
    /// Purpose of the function: `launch`, `copy`, `sync` or `driver`.
    pub category: &'static str,
    /// Meaning of the detail of its calls.
    pub detail: Detail,
}

const UNNAMED: Function<'static> =
    Function { name: "(unnamed function)", category: "driver", detail: Detail::Nothing };

/// The functions of a trace.
#[derive(Debug)]
pub(in crate::late) struct Functions<'t>(Vec<Function<'t>>);

impl<'t> Functions<'t> {
    /// The functions with these symbols, in the order of their numbers.
    pub(in crate::late) fn new(symbols: &'t [String]) -> Functions<'t> {
        let known: HashMap<&str, usize> =
            FUNCTIONS.iter().enumerate().map(|(at, function)| (function.symbol, at)).collect();
        let function = |symbol: &'t String| {
            let Some(at) = known.get(symbol.as_str()) else {
                return Function { name: symbol, ..UNNAMED };
            };
            let name = FUNCTIONS[*at].base;
            let (category, detail) = match FUNCTIONS[*at].category {
                Category::Launch => ("launch", Detail::Kernel),
                Category::GraphLaunch if name == "cuGraphLaunch" => ("launch", Detail::Graph),
                Category::Memcpy | Category::Memset => ("copy", Detail::Bytes),
                Category::Sync => ("sync", Detail::Nothing),
                _ => ("driver", Detail::Nothing),
            };
            Function { name, category, detail }
        };
        Functions(symbols.iter().map(function).collect())
    }

    /// The function with a number.
    pub(in crate::late) fn of(&self, number: u32) -> Function<'t> {
        self.0.get(number as usize).copied().unwrap_or(UNNAMED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_all_variants_have_the_name_of_the_function() {
        let symbols = ["cuLaunchKernel_ptsz", "cuMemcpyHtoDAsync_v2", "cudnnCreate"];
        let symbols = symbols.map(String::from);
        let functions = Functions::new(&symbols);
        let names = [0, 1, 2, 3].map(|number| functions.of(number).name);
        assert_eq!(
            names,
            ["cuLaunchKernel", "cuMemcpyHtoDAsync", "cudnnCreate", "(unnamed function)"]
        );
        assert_eq!(functions.of(0).detail, Detail::Kernel);
        assert_eq!((functions.of(1).detail, functions.of(1).category), (Detail::Bytes, "copy"));
    }
}
