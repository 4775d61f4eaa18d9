//! The colours of all pages, light and dark, in one list.
//!
//! The plots are drawn in the light colours, so that they stand alone. The page turns the list
//! into CSS: variables for its own text, and one attribute selector per colour that re-colours
//! the plots (`[stroke="#0067B1"] { stroke: var(--series-0) }`), which gives the dark scheme
//! without drawing anything twice. Every colour of the list must therefore be unique.

use plotters::style::RGBColor;

/// One colour by role.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ink {
    /// Name of the CSS variable.
    pub(crate) name: &'static str,
    /// Colour in the light scheme, `#RRGGBB` in capitals as the plots write it.
    pub(crate) light: &'static str,
    /// Colour in the dark scheme.
    pub(crate) dark: &'static str,
}

pub(crate) const TEXT: Ink = Ink { name: "text", light: "#17202A", dark: "#E8EBEF" };
pub(crate) const MUTED: Ink = Ink { name: "muted", light: "#5B6673", dark: "#9AA5B3" };
pub(crate) const GRID: Ink = Ink { name: "grid", light: "#E3E7EC", dark: "#2B333D" };
pub(crate) const BAND: Ink = Ink { name: "band", light: "#F5F7F9", dark: "#1B2129" };
pub(crate) const PAPER: Ink = Ink { name: "paper", light: "#FFFFFF", dark: "#151A20" };
/// The period and the deadline.
pub(crate) const LIMIT: Ink = Ink { name: "limit", light: "#B3261E", dark: "#FF8A80" };
/// The guaranteed response time.
pub(crate) const BOUND: Ink = Ink { name: "bound", light: "#39424D", dark: "#C9D1DA" };

/// Blue, vermilion and green of Okabe and Ito, adjusted for contrast on paper and on black;
/// told apart with every common kind of colour blindness. The first is for what a page is about.
pub(crate) const SERIES: [Ink; 6] = [
    Ink { name: "series-0", light: "#0067B1", dark: "#5AB0F2" },
    Ink { name: "series-1", light: "#D55E00", dark: "#FF9150" },
    Ink { name: "series-2", light: "#00875F", dark: "#3CCB9B" },
    Ink { name: "series-3", light: "#B5568D", dark: "#E79AC4" },
    Ink { name: "series-4", light: "#8A6D00", dark: "#E3C64B" },
    Ink { name: "series-5", light: "#6E7781", dark: "#AEB7C1" },
];

/// Every colour of a page.
pub(crate) fn inks() -> Vec<Ink> {
    let mut inks = vec![TEXT, MUTED, GRID, BAND, PAPER, LIMIT, BOUND];
    inks.extend(SERIES);
    inks
}

impl Ink {
    /// The light colour, for the drawing library.
    pub(crate) fn rgb(self) -> RGBColor {
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
