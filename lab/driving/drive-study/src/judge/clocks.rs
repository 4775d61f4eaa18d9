//! Reaction times on the wall clock and on the virtual one, of the same scenarios.

use super::latency::{distribution, millis};
use super::{Findings, Found, Limit, cell, demand};
use crate::statistics::bootstrap;
use crate::{Clock, Experiment, Interval, Part, Row, Times};
use report::document::{Chart, Section, Series, Shape, Table};

const WHAT: &str = "Reaction time on the wall clock and on the virtual one";

/// Largest difference between the clocks, %.
const APART: f64 = 10.0;
/// Scenarios with a reaction on both clocks that it takes to say so.
const ENOUGH: usize = 50;
/// The quantiles that are compared.
const SHARES: [(&str, f64); 2] = [("p50", 0.5), ("p99", 0.99)];
/// The virtual clock, by what it drives.
const SIMULATED: [(Clock, &str); 2] =
    [(Clock::Again, "same drive"), (Clock::Virtual, "drives of their own")];

pub(super) fn found(findings: &Findings) -> Found {
    let Some(part) = findings.part(Experiment::Clocks) else {
        let note = "Not in this study: --experiment clocks measures it.".to_owned();
        return (vec![demand(WHAT, "", None, (Limit::Within(APART), "%"), note)], None);
    };
    let mut demands = Vec::new();
    for stack in &findings.study.stacks {
        for policy in &part.policies {
            for (clock, drives) in SIMULATED {
                let pairs = reactions(&findings.drives.on_both(part, stack, policy, clock));
                demands.extend(SHARES.map(|(name, share)| {
                    let (found, mut note) = of_quantile(&pairs, share);
                    let enough = pairs.len() >= ENOUGH && !findings.study.folded;
                    let found = found.map(|found| if enough { found } else { nothing(found) });
                    if !enough {
                        note += &format!(
                            " At least {ENOUGH} are necessary, with one core of the \
                                          machine for each core of the stack."
                        );
                    }
                    let what =
                        format!("Reaction, wall and virtual clock, {drives}: {policy}, {name}");
                    demand(&what, stack, found, (Limit::Within(APART), "%"), note)
                }));
            }
        }
    }
    let tables = findings.study.stacks.iter().map(|stack| table(findings, part, stack));
    let section = Section {
        title: "Both clocks".to_owned(),
        about: "The same scenarios on real threads and in simulation, each driven until two \
                seconds after its hazard could be seen, as often as --repeat says; in simulation \
                in two ways. The same drive: the stack sees what it saw on real threads, step by \
                step, and each chunk of the modules' code takes the time that it took there, so \
                that only the clocks differ. A drive of its own, as in every other study: costs \
                are measured anew, and the vehicle obeys the commands of the simulation. Compared \
                are all reactions to those in which both reacted, drawn by scenario; the longest \
                reactions are those in which it takes many frames until a command changes."
            .to_owned(),
        tables: tables.collect(),
        charts: findings
            .study
            .stacks
            .iter()
            .flat_map(|stack| plots(findings, part, stack))
            .collect(),
        ..Section::default()
    };
    (demands, Some(section))
}

/// The drives of a scenario on both clocks.
type Drives<'a> = [Vec<&'a Row>; 2];

/// The reactions to one scenario on both clocks, ns.
type Pair = [Vec<u64>; 2];

/// The reactions of scenarios in which there is one on both clocks.
fn reactions(pairs: &[Drives]) -> Vec<Pair> {
    let reactions_of = |drives: &Vec<&Row>| -> Vec<u64> {
        drives.iter().filter_map(|row| Some(row.reaction?.total_ns())).collect()
    };
    let both = pairs.iter().map(|pair| pair.each_ref().map(reactions_of));
    both.filter(|pair| pair.iter().all(|times| !times.is_empty())).collect()
}

/// All reactions of scenarios on a clock.
fn of_clock<'a>(pairs: impl IntoIterator<Item = &'a Pair>, clock: usize) -> Vec<u64> {
    pairs.into_iter().flat_map(|pair| &pair[clock]).copied().collect()
}

/// Difference of a quantile, and its value on both clocks.
fn of_quantile(pairs: &[Pair], share: f64) -> (Option<Interval>, String) {
    let quantile_on = |clock| {
        let times = of_clock(pairs, clock);
        let (count, found) = (times.len(), quantile(times, share));
        (millis(found.map(|ns| ns as f64 / 1e6)), count)
    };
    let ([(simulated, virtually), (wall, really)], count) =
        ([quantile_on(0), quantile_on(1)], pairs.len());
    let note = format!(
        "Wall {wall} ms of {really} reactions, virtual {simulated} ms of {virtually}, of {count} \
         scenarios."
    );
    (apart(pairs, share), note)
}

/// A value that decides nothing.
fn nothing(found: Interval) -> Interval {
    Interval { low: f64::NEG_INFINITY, high: f64::INFINITY, ..found }
}

/// Excess of a quantile on the wall clock, %.
fn apart(pairs: &[Pair], share: f64) -> Option<Interval> {
    bootstrap(pairs, |drawn| {
        let quantile_on = |clock| quantile(of_clock(drawn.iter().copied(), clock), share);
        let (simulated, wall) = (quantile_on(0)?, quantile_on(1)?);
        (simulated > 0).then(|| 100.0 * (wall as f64 / simulated as f64 - 1.0))
    })
}

/// The least of these that a share of them does not exceed.
fn quantile(mut times: Vec<u64>, share: f64) -> Option<u64> {
    times.sort_unstable();
    let rank = (share * times.len() as f64).ceil() as usize;
    times.get(rank.max(1) - 1).copied()
}

fn table(findings: &Findings, part: &Part, stack: &str) -> Table {
    let mut rows = Vec::new();
    for policy in &part.policies {
        let mut of_wall = None;
        for (clock, _) in SIMULATED {
            let pairs = findings.drives.on_both(part, stack, policy, clock);
            let reactions = reactions(&pairs);
            let counts = [pairs.len(), reactions.len()];
            let row = |place: usize, clock| {
                let drives: Vec<&Row> =
                    pairs.iter().flat_map(|pair| &pair[place]).copied().collect();
                cells(policy, clock, counts, &drives, of_clock(&reactions, place))
            };
            of_wall = of_wall.or_else(|| Some(row(1, Clock::Wall)));
            rows.push([row(0, clock), vec![cell(each(&reactions), "%")]].concat());
        }
        rows.extend(of_wall.map(|row| [row, vec!["-".to_owned()]].concat()));
    }
    let head = "policy|clock|scenarios|reacted on both|drives|reactions|collisions|reaction p50, \
         ms|p99|longest|modules, mean|waiting, mean|frame to command p50, ms|p99|longest|late \
         frames|chunks with a cost of the wall clock|median of each scenario, wall against virtual"
        .split('|');
    Table::new(format!("Stack {}", stack.to_uppercase()), head, rows).left(&[1])
}

fn cells(
    policy: &str,
    clock: Clock,
    [scenarios, reacted_on_both]: [usize; 2],
    drives: &[&Row],
    times: Vec<u64>,
) -> Vec<String> {
    let ms = |ns: Option<u64>| millis(ns.map(|ns| ns as f64 / 1e6));
    let share = |share| ms(quantile(times.clone(), share));
    let reacted: Vec<_> = drives.iter().filter_map(|row| row.reaction).collect();
    let mean = |ns: fn(&crate::Reaction) -> u64| {
        ms(reacted.iter().map(ns).sum::<u64>().checked_div(reacted.len() as u64))
    };
    let frames = frames(drives);
    vec![
        policy.to_owned(),
        clock.name().to_owned(),
        scenarios.to_string(),
        reacted_on_both.to_string(),
        drives.len().to_string(),
        reacted.len().to_string(),
        drives.iter().filter(|row| row.collision.is_some()).count().to_string(),
        share(0.5),
        share(0.99),
        share(1.0),
        mean(|reaction| reaction.module_ns),
        mean(|reaction| reaction.bubble_ns),
        millis(frames.quantile_ms(0.5)),
        millis(frames.quantile_ms(0.99)),
        millis(frames.max_ms()),
        match clock {
            Clock::Virtual | Clock::Again => "-".to_owned(),
            Clock::Wall => drives.iter().map(|row| row.late_frames).sum::<usize>().to_string(),
        },
        match clock {
            Clock::Virtual | Clock::Wall => "-".to_owned(),
            Clock::Again => observed(drives),
        },
    ]
}

/// Share of all chunks that cost what they did on the wall clock.
fn observed(drives: &[&Row]) -> String {
    let sum = |count: fn(&Row) -> u64| drives.iter().map(|row| count(row)).sum::<u64>() as f64;
    let (same, other) = (sum(|row| row.chunks_observed), sum(|row| row.chunks_missing));
    if same + other == 0.0 {
        "-".to_owned()
    } else {
        format!("{:.1} %", 100.0 * same / (same + other))
    }
}

/// Excess of the median reaction to a scenario on the wall clock: the median of
/// the scenarios, %.
fn each(reactions: &[Pair]) -> Option<Interval> {
    let medians = reactions.iter().filter_map(|pair| {
        let [simulated, wall] = pair.each_ref().map(|times| quantile(times.clone(), 0.5));
        Some((wall? as f64, simulated.filter(|ns| *ns > 0)? as f64))
    });
    let ratios: Vec<f64> = medians.map(|(wall, simulated)| wall / simulated).collect();
    bootstrap(&ratios, |drawn| {
        let mut drawn: Vec<f64> = drawn.iter().map(|ratio| **ratio).collect();
        drawn.sort_by(f64::total_cmp);
        Some(100.0 * (drawn.get(drawn.len() / 2)? - 1.0))
    })
}

fn frames(drives: &[&Row]) -> Times {
    drives.iter().fold(Times::default(), |mut all, row| {
        all.merge(&row.times("frames"));
        all
    })
}

fn plots(findings: &Findings, part: &Part, stack: &str) -> Vec<Chart> {
    let of_policy = |policy: &String| {
        let on = |clock| findings.drives.on_both(part, stack, policy, clock);
        let all = SIMULATED.map(|(clock, _)| (clock, on(clock)));
        // The wall's are the same beside both.
        let curve = |of: &dyn Fn(&[Drives], usize) -> Times| {
            let simulated =
                all.iter().map(|(clock, pairs)| distribution(clock.name(), &of(pairs, 0)));
            let wall =
                all.first().map(|(_, pairs)| distribution(Clock::Wall.name(), &of(pairs, 1)));
            simulated.chain(wall).collect()
        };
        let reaction = |pairs: &[Drives], place: usize| {
            let mut times = Times::default();
            of_clock(&reactions(pairs), place).into_iter().for_each(|ns| times.add(ns));
            times
        };
        let frame = |pairs: &[Drives], place: usize| {
            frames(&pairs.iter().flat_map(|pair| &pair[place]).copied().collect::<Vec<_>>())
        };
        let plot = |what: &str, series: Vec<Series>| {
            let stack = stack.to_uppercase();
            let title = format!("{what} on both clocks, {policy}, stack {stack}");
            Chart::new(title, ("time, ms", "cumulative share, %"), Shape::Distribution, series)
        };
        [plot("Reaction", curve(&reaction)), plot("Frame to command", curve(&frame))]
    };
    part.policies.iter().flat_map(of_policy).collect()
}
