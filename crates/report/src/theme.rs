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

/// Blue, vermilion and green of Okabe and Ito, told apart with every common kind of colour
/// blindness, and adjusted so that text of these colours is legible on paper and on bands, and text
/// of the paper's colour on them. The first is for what a page is about.
pub const SERIES: [Ink; 8] = [
    Ink { name: "series-0", light: "#0067B1", dark: "#5AB0F2" },
    Ink { name: "series-1", light: "#BA5000", dark: "#FF9150" },
    Ink { name: "series-2", light: "#007F59", dark: "#3CCB9B" },
    Ink { name: "series-3", light: "#AF4F87", dark: "#E79AC4" },
    Ink { name: "series-4", light: "#856900", dark: "#E3C64B" },
    Ink { name: "series-5", light: "#69727C", dark: "#AEB7C1" },
    Ink { name: "series-6", light: "#4F43B5", dark: "#A99FFF" },
    Ink { name: "series-7", light: "#7A3F1D", dark: "#D19A75" },
];

/// Number of colours of series.
pub const COLOURS: usize = SERIES.len() + 2;

/// The colour of a series by its place: the last two are grey.
pub fn series(place: usize) -> Ink {
    SERIES.into_iter().chain([BOUND, MUTED]).nth(place % COLOURS).unwrap_or(TEXT)
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

    /// The contrast of WCAG 2, from 1 to 21.
    fn contrast(one: &str, other: &str) -> f64 {
        let light = |colour: &str| {
            let part = |at: usize| {
                let share = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
                if share <= 0.03928 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5) + 0.05
        };
        let (one, other) = (light(one), light(other));
        one.max(other) / one.min(other)
    }

    #[test]
    fn text_of_every_colour_is_legible_in_both_schemes() {
        assert_eq!(contrast("#FFFFFF", "#000000").round(), 21.0);
        let inks = inks()
            .into_iter()
            .filter(|ink| ![GRID, BAND, PAPER].map(|it| it.name).contains(&ink.name));
        for ink in inks {
            for ground in [PAPER, BAND] {
                let [light, dark] = [(ink.light, ground.light), (ink.dark, ground.dark)]
                    .map(|(ink, ground)| contrast(ink, ground));
                assert!(
                    light >= 4.5 && dark >= 4.5,
                    "{} on {}: {light:.2}, {dark:.2}",
                    ink.name,
                    ground.name
                );
            }
        }
    }

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
