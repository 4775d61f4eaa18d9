//! The colours of all pages, light and dark, in one list.
//!
//! The plots are drawn in the light colours, so that they stand alone. The page turns the list
//! into CSS: variables for its own text, and one attribute selector per colour that re-colours
//! the plots (`[stroke="#0067B1"] { stroke: var(--series-0) }`), which gives the dark scheme
//! without drawing anything twice. Every colour of the list must therefore be unique.

use plotters::style::RGBColor;

/// One colour by role.
#[derive(Debug, Clone, Copy)]
pub struct Ink {
    /// Name of the CSS variable.
    pub name: &'static str,
    /// Colour in the light scheme, `#RRGGBB` in capitals as the plots write it.
    pub light: &'static str,
    /// Colour in the dark scheme.
    pub dark: &'static str,
}

/// Text.
pub const TEXT: Ink = Ink { name: "text", light: "#17202A", dark: "#E8EBEF" };
/// Text that stands back.
pub const MUTED: Ink = Ink { name: "muted", light: "#5B6673", dark: "#9AA5B3" };
/// Lines that stand back.
pub const GRID: Ink = Ink { name: "grid", light: "#E3E7EC", dark: "#2B333D" };
/// An area that stands back.
pub const BAND: Ink = Ink { name: "band", light: "#F5F7F9", dark: "#1B2129" };
/// Background of a drawing.
pub const PAPER: Ink = Ink { name: "paper", light: "#FFFFFF", dark: "#151A20" };
/// The period and the deadline.
pub const LIMIT: Ink = Ink { name: "limit", light: "#B3261E", dark: "#FF8A80" };
/// The guaranteed response time.
pub const BOUND: Ink = Ink { name: "bound", light: "#39424D", dark: "#C9D1DA" };

/// Blue, vermilion and green of Okabe and Ito, adjusted for contrast on paper and on black;
/// told apart with every common kind of colour blindness. The first is for what a page is about.
pub const SERIES: [Ink; 8] = [
    Ink { name: "series-0", light: "#0067B1", dark: "#5AB0F2" },
    Ink { name: "series-1", light: "#D55E00", dark: "#FF9150" },
    Ink { name: "series-2", light: "#00875F", dark: "#3CCB9B" },
    Ink { name: "series-3", light: "#B5568D", dark: "#E79AC4" },
    Ink { name: "series-4", light: "#8A6D00", dark: "#E3C64B" },
    Ink { name: "series-5", light: "#6E7781", dark: "#AEB7C1" },
    Ink { name: "series-6", light: "#4F43B5", dark: "#A99FFF" },
    Ink { name: "series-7", light: "#7A3F1D", dark: "#D19A75" },
];

/// The colour of a series by its place: the last two of ten are grey.
pub fn series(place: usize) -> Ink {
    let places = SERIES.len() + 2;
    SERIES.into_iter().chain([BOUND, MUTED]).nth(place % places).unwrap_or(TEXT)
}

/// Every colour of a page.
pub fn inks() -> Vec<Ink> {
    let mut inks = vec![TEXT, MUTED, GRID, BAND, PAPER, LIMIT, BOUND];
    inks.extend(SERIES);
    inks
}

impl Ink {
    /// The light colour, for the drawing library.
    pub fn rgb(self) -> RGBColor {
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
