//! Places for the labels of marked values, so that no label covers another one or a line.
//!
//! A value that is marked along x has a vertical line, and its label in a row above the chart, in
//! the middle of the line or beside it; the line ends below its own row. [`above`] finds the fewest
//! rows, by trying. A value along y has a horizontal line and its label at the right end, outside
//! the chart: [`apart`] moves labels that would touch.

/// Space between two labels, and between a label and a line that is not its own.
const GAP: i32 = 8;

/// Place of a label above a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Its row, counted from the chart.
    pub(super) row: i32,
    /// Its left edge.
    pub(super) left: i32,
}

/// A line with its label, while places are tried.
#[derive(Clone, Copy)]
struct Mark {
    at: i32,
    width: i32,
    place: Place,
}

impl Mark {
    fn covers(&self, x: i32) -> bool {
        (self.place.left - GAP..self.place.left + self.width + GAP).contains(&x)
    }

    /// Returns true if the two labels touch, or if the line of the upper one crosses the lower one.
    fn collides(&self, other: &Mark) -> bool {
        if self.place.row == other.place.row {
            let ends = [self.place.left + self.width, other.place.left + other.width];
            return self.place.left < ends[1] + GAP && other.place.left < ends[0] + GAP;
        }
        let (upper, lower) =
            if self.place.row > other.place.row { (self, other) } else { (other, self) };
        lower.covers(upper.at)
    }
}

/// Places for labels of vertical lines between two edges; a label is where its line is, and how wide
/// it is. If it does not work out in a row for each label, they stand in a row each.
pub(super) fn above(labels: &[(i32, i32)], edges: (i32, i32)) -> Vec<Place> {
    for rows in 1..=labels.len() {
        let mut marks = Vec::new();
        if fits(labels, edges, rows as i32, &mut marks) {
            return marks.into_iter().map(|mark| mark.place).collect();
        }
    }
    let rows = (0..).zip(labels);
    rows.map(|(row, label)| Place { row, left: choices(*label, edges)[0] }).collect()
}

/// Places the labels that have no place yet, if that is possible in so many rows.
fn fits(labels: &[(i32, i32)], edges: (i32, i32), rows: i32, marks: &mut Vec<Mark>) -> bool {
    let Some(&(at, width)) = labels.get(marks.len()) else { return true };
    for left in choices((at, width), edges) {
        for row in 0..rows {
            let mark = Mark { at, width, place: Place { row, left } };
            if marks.iter().any(|placed| placed.collides(&mark)) {
                continue;
            }
            marks.push(mark);
            if fits(labels, edges, rows, marks) {
                return true;
            }
            marks.pop();
        }
    }
    false
}

/// Left edges of a label in the middle of its line, right of it and left of it, kept between the edges.
fn choices((at, width): (i32, i32), (left, right): (i32, i32)) -> [i32; 3] {
    let last = (right - width).max(left);
    [at - width / 2, at, at - width].map(|from| from.clamp(left, last))
}

/// Middles of labels of horizontal lines, at least `height` apart, between the top and the bottom
/// where there is room, in the order of the lines.
pub(super) fn apart(lines: &[i32], height: i32, (top, bottom): (i32, i32)) -> Vec<i32> {
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by_key(|index| lines[*index]);
    let mut places = lines.to_vec();
    let mut least = top;
    for index in &order {
        places[*index] = places[*index].max(least);
        least = places[*index] + height;
    }
    let mut most = bottom;
    for index in order.iter().rev() {
        places[*index] = places[*index].min(most);
        most = places[*index] - height;
    }
    places
}

/// Middle of a label of a height, at `at` or as far above it as no line crosses it.
pub(super) fn clear_of(lines: &[i32], mut at: i32, height: i32) -> i32 {
    while let Some(line) = lines.iter().find(|line| (at - **line).abs() * 2 <= height) {
        at = line - height / 2 - 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGES: (i32, i32) = (0, 500);

    /// Returns true if two labels cover each other, or if a line, which ends below its own row, goes
    /// through a label in a row below that.
    fn collide(labels: &[(i32, i32)], places: &[Place]) -> bool {
        let drawn = || labels.iter().zip(places);
        drawn().enumerate().any(|(a, ((at, width), place))| {
            let right = place.left + width;
            drawn().enumerate().filter(|(b, _)| a != *b).any(|(_, ((_, wide), other))| {
                let end = other.left + wide;
                let covers = place.row == other.row && place.left < end && other.left < right;
                covers || other.row < place.row && (other.left..end).contains(at)
            })
        })
    }

    #[test]
    fn label_is_in_the_middle_where_there_is_room() {
        let labels = [(100, 80), (300, 60)];
        let places = above(&labels, EDGES);
        assert_eq!(places, [Place { row: 0, left: 60 }, Place { row: 0, left: 270 }]);
        assert_eq!(above(&[(490, 80), (5, 40)], EDGES)[0].left, 420);
        assert_eq!(above(&[(5, 40)], EDGES)[0].left, 0);
    }

    #[test]
    fn neighbours_stand_on_both_sides() {
        let labels = [(200, 90), (230, 90)];
        let places = above(&labels, EDGES);
        assert!(places.iter().all(|place| place.row == 0), "{places:?}");
        assert!(!collide(&labels, &places));
    }

    #[test]
    fn no_label_collides_wherever_the_lines_are() {
        let mut random = 1u64;
        let mut next = |most: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((random >> 33) % most) as i32
        };
        for _ in 0..2_000 {
            let labels = [(); 3].map(|()| (20 + next(460), 40 + next(80)));
            let apart = |a: usize, b: usize| (labels[a].0 - labels[b].0).abs() > GAP;
            // Lines on each other cannot be told apart by any place of their labels.
            if apart(0, 1) && apart(0, 2) && apart(1, 2) {
                let places = above(&labels, EDGES);
                assert!(!collide(&labels, &places), "{labels:?}: {places:?}");
            }
        }
    }

    #[test]
    fn labels_of_one_value_stand_in_rows() {
        let places = above(&[(200, 90), (200, 90), (200, 90)], EDGES);
        let mut rows: Vec<i32> = places.iter().map(|place| place.row).collect();
        rows.sort_unstable();
        assert_eq!(rows, [0, 1, 2]);
    }

    #[test]
    fn horizontal_labels_keep_their_order_and_their_distance() {
        assert_eq!(apart(&[50, 80], 14, (0, 200)), [50, 80]);
        assert_eq!(apart(&[198, 196], 14, (0, 200)), [200, 186]);
        assert_eq!(apart(&[1, 0, 2], 14, (0, 200)), [14, 0, 28]);
    }

    #[test]
    fn number_is_above_the_lines_that_would_cross_it() {
        assert_eq!(clear_of(&[100], 50, 20), 50);
        assert_eq!(clear_of(&[100, 85], 95, 20), 74);
    }
}
