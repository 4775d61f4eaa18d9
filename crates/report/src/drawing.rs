//! Basics of all plots: a drawing in a string, an axis, lines and text.
//!
//! Everything is drawn at [`FINE`] times its size on the page, because the drawing library rounds
//! to whole pixels.

use crate::Error;
use crate::theme::Ink;
use minijinja::HtmlEscape;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Drawn pixels per pixel on the page.
pub const FINE: i32 = 2;

/// Surface that plots are drawn on.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
/// Result of drawing something.
pub type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// A drawing in a string; sizes in pixels of the page. `name` is what a reader of the screen says:
/// the quantity and its key values. Errors have it, too.
///
/// # Errors
/// [`Error::Plot`].
pub fn draw(
    name: &str,
    (width, height): (i32, i32),
    content: impl FnOnce(&Area<'_>) -> Drawn,
) -> Result<String, Error> {
    let mut svg = String::new();
    let size = ((width * FINE).unsigned_abs(), (height * FINE).unsigned_abs());
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let drawn = content(&area).and_then(|()| area.present());
    drop(area);
    match drawn {
        Ok(()) => Ok(named(&svg, name)),
        Err(error) => Err(Error::Plot { plot: name.to_owned(), message: error.to_string() }),
    }
}

/// The drawing with an accessible name. What is in it is not read out.
fn named(svg: &str, name: &str) -> String {
    let name = format!(" role=\"img\" aria-label=\"{}\">", HtmlEscape(name));
    svg.replacen('>', &name, 1)
}

/// An axis, linear or logarithmic, from values to pixels of the drawing.
pub struct Axis {
    /// True if it is logarithmic.
    pub log: bool,
    /// The least value.
    pub low: f64,
    /// The largest value.
    pub high: f64,
    left: f64,
    right: f64,
    /// The pixel of zero, which a logarithm does not have.
    zero: Option<i32>,
}

impl Axis {
    /// Logarithmic where the values span more than a decade; between two pixels of the page.
    pub fn new(low: f64, high: f64, pixels: (i32, i32)) -> Self {
        let (low, high) = positive(low, high);
        Self::between((low, high), high / low > 10.0, pixels)
    }

    /// Logarithmic whatever the values span; between two pixels of the page.
    pub fn logarithmic(low: f64, high: f64, pixels: (i32, i32)) -> Self {
        Self::between(positive(low, high), true, pixels)
    }

    /// Linear from a value to a value, which need not be zero; between two pixels of the page.
    pub fn linear(low: f64, high: f64, (left, right): (i32, i32)) -> Self {
        let wide = low.is_finite() && high.is_finite() && high > low;
        let (low, high) = if wide { (low, high) } else { (0.0, 1.0) };
        Self {
            log: false,
            low,
            high,
            left: f64::from(left * FINE),
            right: f64::from(right * FINE),
            zero: None,
        }
    }

    fn between((low, high): (f64, f64), log: bool, (left, right): (i32, i32)) -> Self {
        let (low, high) = if log { (low * 0.85, high * 1.18) } else { (0.0, high * 1.06) };
        Self {
            log,
            low,
            high,
            left: f64::from(left * FINE),
            right: f64::from(right * FINE),
            zero: None,
        }
    }

    /// The same with a pixel of the page for zero, beside a logarithmic axis.
    pub fn with_zero(self, pixel: i32) -> Self {
        Self { zero: Some(pixel * FINE), ..self }
    }

    /// The pixel of zero beside a logarithmic axis.
    pub fn zero(&self) -> Option<i32> {
        self.zero
    }

    fn scale(&self, value: f64) -> f64 {
        if self.log { value.max(self.low).ln() } else { value }
    }

    /// The pixel of a value, kept inside the axis.
    pub fn at(&self, value: f64) -> i32 {
        if let Some(zero) = self.zero.filter(|_| value <= 0.0) {
            return zero;
        }
        let (low, high) = (self.scale(self.low), self.scale(self.high));
        let share = ((self.scale(value) - low) / (high - low)).clamp(0.0, 1.0);
        (self.left + share * (self.right - self.left)).round() as i32
    }

    /// Round values (1, 2 or 5 times a power of ten), far enough apart for their labels. A
    /// logarithmic axis with less than three of them has evenly spaced ones.
    pub fn ticks(&self) -> Vec<f64> {
        let mut ticks = if self.log { self.decades() } else { Vec::new() };
        if ticks.len() < 3 {
            ticks = self.even();
        }
        ticks.retain(|tick| (self.low..=self.high).contains(tick));
        ticks
    }

    /// 1, 2 and 5 times the powers of ten between the ends; the powers alone where there are many.
    fn decades(&self) -> Vec<f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let ticks =
            decades.flat_map(|decade| [1.0, 2.0, 5.0].map(|m| (m, m * 10_f64.powi(decade))));
        let inside = ticks.filter(|(_, tick)| (self.low..=self.high).contains(tick));
        let ticks: Vec<(f64, f64)> = inside.collect();
        let few = ticks.len() <= 9;
        ticks.into_iter().filter(|(m, _)| few || *m == 1.0).map(|(_, tick)| tick).collect()
    }

    /// Multiples of a round step.
    fn even(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / if self.log { 5.0 } else { 8.0 };
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough);
        let step = step.unwrap_or(10.0 * power);
        let first = (self.low / step).ceil();
        (0..=10).map(|i| (first + f64::from(i)) * step).collect()
    }
}

/// Values that a logarithm can take.
fn positive(low: f64, high: f64) -> (f64, f64) {
    let high = if high > 0.0 { high } else { 1.0 };
    (if low > 0.0 { low } else { high / 1_000.0 }, high)
}

/// Text of one size and colour, anchored left, centre or right of a point. The point is in pixels
/// of the drawing, the size in pixels of the page.
///
/// # Errors
/// Errors of the drawing library.
pub fn text(
    area: &Area<'_>,
    words: &str,
    at: (i32, i32),
    size: i32,
    ink: Ink,
    side: HPos,
) -> Drawn {
    // The drawing library takes the height of a line and writes the size of the letters.
    let style = ("sans-serif", f64::from(size * FINE) * 1.24).into_font().color(&ink.rgb());
    area.draw_text(words, &style.pos(Pos::new(side, VPos::Center)), at)
}

/// A straight line; all in pixels of the drawing.
///
/// # Errors
/// Errors of the drawing library.
pub fn line(area: &Area<'_>, from: (i32, i32), to: (i32, i32), ink: Ink, width: u32) -> Drawn {
    area.draw(&PathElement::new([from, to], ink.rgb().stroke_width(width)))
}

/// A dashed vertical line; all in pixels of the drawing.
///
/// # Errors
/// Errors of the drawing library.
pub fn dashed(area: &Area<'_>, x: i32, (top, bottom): (i32, i32), ink: Ink, dash: i32) -> Drawn {
    let mut y = top;
    while y < bottom {
        line(area, (x, y), (x, (y + dash).min(bottom)), ink, 3)?;
        y += 2 * dash;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside_the_axis() {
        let linear = Axis::new(40.0, 95.0, (0, 100));
        assert_eq!(linear.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let log = Axis::new(9.0, 900.0, (0, 100));
        assert_eq!(log.ticks(), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(Axis::new(0.001, 1e4, (0, 100)).ticks().len(), 8);
        let narrow = Axis::logarithmic(40.0, 95.0, (0, 100));
        assert!(narrow.log && narrow.ticks() == [40.0, 60.0, 80.0, 100.0]);
    }

    #[test]
    fn drawing_has_a_name_that_is_escaped() {
        let svg = draw("\"a\" < b", (10, 10), |_| Ok(())).unwrap();
        assert!(svg.contains("role=\"img\" aria-label=\"&quot;a&quot; &lt; b\">"), "{svg}");
    }

    #[test]
    fn axis_takes_any_values() {
        for (low, high) in [(0.0, 0.0), (-1.0, -5.0), (0.0, 1e18), (5.0, 5.0)] {
            let axis = Axis::new(low, high, (0, 100));
            assert!((0..=200).contains(&axis.at(high)) && !axis.ticks().is_empty());
        }
    }
}
