//! The assignment of rows to columns with the least total cost: the Hungarian method with
//! potentials, by shortest augmenting paths, in O(n²m) (Jonker and Volgenant, 1987).

/// Column of each row; none where there are more rows than columns. `columns`
/// is the length of every row.
///
/// # Panics
///
/// A row is shorter than `columns`.
pub(super) fn least(costs: &[Vec<f64>], columns: usize) -> Vec<Option<usize>> {
    if costs.len() <= columns {
        return rows(costs.len(), columns, |row, column| costs[row][column]);
    }
    let by_column = rows(columns, costs.len(), |column, row| costs[row][column]);
    let mut by_row = vec![None; costs.len()];
    for (column, row) in by_column.into_iter().enumerate() {
        if let Some(row) = row {
            by_row[row] = Some(column);
        }
    }
    by_row
}

/// Each of `count` rows gets one of at least as many columns.
fn rows(count: usize, columns: usize, cost: impl Fn(usize, usize) -> f64) -> Vec<Option<usize>> {
    // Column 0 and row 0 are the start of a path; the others are counted from 1.
    let mut row_potential = vec![0.0; count + 1];
    let mut column_potential = vec![0.0; columns + 1];
    let mut row_of = vec![0; columns + 1];
    for row in 1..=count {
        row_of[0] = row;
        let mut slack = vec![f64::INFINITY; columns + 1];
        let mut before = vec![0; columns + 1];
        let mut visited = vec![false; columns + 1];
        let mut at = 0;
        while row_of[at] != 0 {
            visited[at] = true;
            let from = row_of[at];
            let (mut least, mut nearest) = (f64::INFINITY, 0);
            for column in 1..=columns {
                if visited[column] {
                    continue;
                }
                let reduced =
                    cost(from - 1, column - 1) - row_potential[from] - column_potential[column];
                if reduced < slack[column] {
                    (slack[column], before[column]) = (reduced, at);
                }
                if slack[column] < least {
                    (least, nearest) = (slack[column], column);
                }
            }
            for column in 0..=columns {
                if visited[column] {
                    row_potential[row_of[column]] += least;
                    column_potential[column] -= least;
                } else {
                    slack[column] -= least;
                }
            }
            at = nearest;
        }
        while at != 0 {
            row_of[at] = row_of[before[at]];
            at = before[at];
        }
    }
    let mut assigned = vec![None; count];
    for column in 1..=columns {
        if row_of[column] != 0 {
            assigned[row_of[column] - 1] = Some(column - 1);
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least total cost by trying every way.
    fn brute(costs: &[Vec<f64>], row: usize, taken: &mut Vec<bool>, skips: usize) -> f64 {
        let Some(line) = costs.get(row) else { return 0.0 };
        let mut least = f64::INFINITY;
        if skips > 0 {
            least = brute(costs, row + 1, taken, skips - 1);
        }
        for column in 0..line.len() {
            if !taken[column] {
                taken[column] = true;
                least = least.min(line[column] + brute(costs, row + 1, taken, skips));
                taken[column] = false;
            }
        }
        least
    }

    #[test]
    fn no_other_assignment_costs_less() {
        let mut seed = 7_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 40) as f64
        };
        for (count, columns) in [(1, 1), (3, 3), (5, 5), (2, 6), (6, 2), (0, 3), (3, 0), (5, 4)] {
            for _ in 0..20 {
                let costs: Vec<Vec<f64>> =
                    (0..count).map(|_| (0..columns).map(|_| random()).collect()).collect();
                let assigned = least(&costs, columns);
                let mut used: Vec<usize> = assigned.iter().flatten().copied().collect();
                used.sort_unstable();
                used.dedup();
                assert_eq!(used.len(), count.min(columns));
                let total: f64 = assigned
                    .iter()
                    .enumerate()
                    .filter_map(|(row, column)| column.map(|column| costs[row][column]))
                    .sum();
                let skips = count.saturating_sub(columns);
                assert_eq!(total, brute(&costs, 0, &mut vec![false; columns], skips));
            }
        }
    }
}
