//! The colours of the page, light and dark, in one list.
//!
//! The plots are drawn in the light colours, so that they stand alone. The page turns the list
//! into CSS: variables for its own text, and one attribute selector per colour that re-colours
//! the plots (`[stroke="#0067B1"] { stroke: var(--policy-0) }`), which gives the dark scheme
//! without drawing anything twice. Every colour of the list must therefore be unique.

use super::{ChainsRun, PRIORITY};
use plotters::style::RGBColor;

/// One colour by role.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ink {
    /// Name of the CSS variable.
    pub(super) name: &'static str,
    /// Colour in the light scheme, `#RRGGBB` in capitals as the plots write it.
    pub(super) light: &'static str,
    /// Colour in the dark scheme.
    pub(super) dark: &'static str,
}

pub(super) const TEXT: Ink = Ink { name: "text", light: "#17202A", dark: "#E8EBEF" };
pub(super) const MUTED: Ink = Ink { name: "muted", light: "#5B6673", dark: "#9AA5B3" };
pub(super) const GRID: Ink = Ink { name: "grid", light: "#E3E7EC", dark: "#2B333D" };
pub(super) const BAND: Ink = Ink { name: "band", light: "#F5F7F9", dark: "#1B2129" };
pub(super) const PAPER: Ink = Ink { name: "paper", light: "#FFFFFF", dark: "#151A20" };
/// The period and the deadline.
pub(super) const LIMIT: Ink = Ink { name: "limit", light: "#B3261E", dark: "#FF8A80" };
/// The guaranteed response time.
pub(super) const BOUND: Ink = Ink { name: "bound", light: "#39424D", dark: "#C9D1DA" };

/// Blue, vermilion and green of Okabe and Ito, adjusted for contrast on paper and on black;
/// told apart with every common kind of colour blindness. `priority` is always the blue one.
pub(super) const POLICIES: [Ink; 6] = [
    Ink { name: "policy-0", light: "#0067B1", dark: "#5AB0F2" },
    Ink { name: "policy-1", light: "#D55E00", dark: "#FF9150" },
    Ink { name: "policy-2", light: "#00875F", dark: "#3CCB9B" },
    Ink { name: "policy-3", light: "#B5568D", dark: "#E79AC4" },
    Ink { name: "policy-4", light: "#8A6D00", dark: "#E3C64B" },
    Ink { name: "policy-5", light: "#6E7781", dark: "#AEB7C1" },
];

/// Every colour of the page.
pub(super) fn inks() -> Vec<Ink> {
    let mut inks = vec![TEXT, MUTED, GRID, BAND, PAPER, LIMIT, BOUND];
    inks.extend(POLICIES);
    inks
}

/// The place of each policy in [`POLICIES`], in the order of the run.
pub(super) fn policy_inks(run: &ChainsRun) -> Vec<usize> {
    let known = [PRIORITY, "fifo", "timeslice"];
    let mut next = known.len();
    let mut place = |policy: &str| {
        known.iter().position(|name| *name == policy).unwrap_or_else(|| {
            next += 1;
            (next - 1 - known.len()) % (POLICIES.len() - known.len()) + known.len()
        })
    };
    run.policies.iter().map(|run| place(&run.policy)).collect()
}

impl Ink {
    /// The light colour, for the drawing library.
    pub(super) fn rgb(self) -> RGBColor {
        let part = |at: usize| u8::from_str_radix(&self.light[at..at + 2], 16).unwrap_or(0);
        RGBColor(part(1), part(3), part(5))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_light_colour_stands_for_one_role() {
        let inks = inks();
        let colours: HashSet<&str> = inks.iter().map(|ink| ink.light).collect();
        assert_eq!(colours.len(), inks.len());
        for ink in inks {
            let RGBColor(r, g, b) = ink.rgb();
            assert_eq!(format!("#{r:02X}{g:02X}{b:02X}"), ink.light, "{}", ink.name);
        }
    }
}
