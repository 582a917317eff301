//! Renders machines: those being bought, for which run and why, and those bought. Pure: the time is an
//! argument.

use api_types::capacity::{
    BoughtMachines, CapacityView, GangName, LaunchView, OrderedMachines, RefusedView, SpendingView,
};
use jiff::Timestamp;

use crate::money::rounded;
use crate::render::{aligned_table, between, clean, counted, period, since};

/// `warpyard capacity`.
pub fn capacity(view: &CapacityView, now: Timestamp) -> String {
    let mut parts = Vec::new();
    if !view.buying.is_empty() {
        let header = ["FOR", "MACHINES", "READY", "SINCE", "READY IN", "PER HOUR", "WHY"];
        parts.push(table(&header, view.buying.iter().map(|launch| launch_row(launch, now)), &[5]));
    }
    if !view.refused.is_empty() {
        parts.push(table(&["NOT BOUGHT FOR", "WHY"], view.refused.iter().map(refused_row), &[]));
    }
    let machines = view.machines.as_deref().unwrap_or_default();
    if !machines.is_empty() {
        let header = ["MACHINES", "BOUGHT", "COUNT", "STARTING", "BUSY", "IDLE", "LEAVING", "PER HOUR"];
        parts.push(table(&header, machines.iter().map(machines_row), &[2, 3, 4, 5, 6, 7]));
    }
    if let Some(SpendingView { machines, most_machines, per_hour, most_per_hour }) = &view.spending {
        let (per_hour, most) = (rounded(per_hour), rounded(most_per_hour));
        parts.push(format!(
            "{machines} of at most {most_machines} machines, {per_hour} of at most {most} an hour.\n"
        ));
    }
    parts.join("\n")
}

/// The note below the table, for which up to `limit` launches and refusals were asked for.
pub fn note(view: &CapacityView, limit: u16) -> String {
    let mut lines = Vec::new();
    let nothing_bought = view.buying.is_empty() && view.buying_in_all == 0;
    if !view.enabled {
        let why = view.note.as_deref().map_or(String::new(), |note| format!(": {}", clean(note)));
        return format!(
            "No machines are bought{why}.\n\nhint: administrators read docs/guides/buy-machines.md\n"
        );
    }
    match view.note.as_deref().map(clean) {
        Some(note) if nothing_bought => lines.push(format!("Nothing is being bought: {note}")),
        note => lines.extend(note),
    }
    if view.from_pools > 0 {
        let wait = if view.from_pools == 1 { "waits" } else { "wait" };
        lines.push(format!("{} {wait} for a pool of Karpenter to buy a node", pods(view.from_pools)));
    }
    let hidden = |in_all: u32, shown: usize| u64::from(in_all).saturating_sub(shown as u64);
    let launches = hidden(view.buying_in_all, view.buying.len());
    let refusals = hidden(view.refused_in_all, view.refused.len());
    if launches + refusals > 0 {
        let is_cut = view.buying.len().max(view.refused.len()) >= usize::from(limit);
        let why =
            if is_cut { "--limit shows more of those that you may see" } else { "you may not see them" };
        let (launches, refusals) = (counted_as(launches, "launch", "launches"), counted(refusals, "refusal"));
        lines.push(format!("{launches} and {refusals} are not shown; {why}"));
    }
    if lines.is_empty() && nothing_bought && view.refused.is_empty() {
        lines.push("Nothing is being bought, and no run waits for machines".to_owned());
    }
    lines.into_iter().map(|line| line + ".\n").collect()
}

fn launch_row(launch: &LaunchView, now: Timestamp) -> Vec<String> {
    let machines: Vec<String> = launch.machines.iter().map(ordered).collect();
    vec![
        launch.gang.as_ref().map_or_else(|| "(spares)".to_owned(), gang),
        machines.join(", "),
        format!("{}/{}", launch.ready, launch.of),
        since(&launch.since, now),
        ready_in(&launch.ready_by, now),
        rounded(&launch.per_hour),
        launch.why.clone(),
    ]
}

fn refused_row(refused: &RefusedView) -> Vec<String> {
    vec![gang(&refused.gang), refused.why.clone()]
}

fn machines_row(machines: &BoughtMachines) -> Vec<String> {
    let BoughtMachines { machine_type, capacity_type, count, starting, idle, leaving, per_hour } = machines;
    let busy = count.saturating_sub(starting + idle + leaving);
    let numbers = [*count, *starting, busy, *idle, *leaving].map(|number| number.to_string());
    let mut row = vec![machine_type.clone(), capacity_type.clone()];
    row.extend(numbers);
    row.push(rounded(per_hour));
    row
}

/// The run's name if there is a run: that is what people submitted.
fn gang(gang: &GangName) -> String {
    format!("{}/{}", gang.namespace, gang.run.as_ref().unwrap_or(&gang.name))
}

fn ordered(machines: &OrderedMachines) -> String {
    let OrderedMachines { count, machine_type, capacity_type, zone, block, rack } = machines;
    let within: String =
        [block, rack].into_iter().flatten().flat_map(|within| ["/", within.as_str()]).collect();
    format!("{count} × {machine_type} {capacity_type} in {zone}{within}")
}

/// The time until machines should be ready; it may be over.
fn ready_in(ready_by: &str, now: Timestamp) -> String {
    let due = ready_by.parse::<Timestamp>();
    match due.map(|due| now.as_second() - due.as_second()) {
        Ok(late_seconds) if late_seconds > 0 => format!("{} late", period(late_seconds)),
        _ => between(&now.to_string(), ready_by),
    }
}

fn pods(number: u32) -> String {
    counted(number.into(), "gang") + " of one"
}

fn counted_as(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>, right: &[usize]) -> String {
    aligned_table(header.iter().copied().map(str::to_owned).collect(), rows, right)
}

#[cfg(test)]
#[path = "render_capacity_tests.rs"]
mod tests;
