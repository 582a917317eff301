//! Renders costs. Pure.

use std::cmp::Reverse;

use api_types::rest::{Cost, CostGrouping, CostReport, CostRow, RunCostView};
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;

use crate::money::{gpu_hours, is_zero, number, rounded};
use crate::render::{aligned_table, clean, labelled, none};

const BAR_LENGTH: usize = 20;

/// `warpyard cost RUN`: one screen.
pub fn run_cost(view: &RunCostView) -> String {
    let currency = view.currency.as_deref();
    let mut text = labelled("Run", &clean(&format!("{}/{}", view.namespace, view.name)));
    text.push_str(&labelled("Cost", &so_far(view).unwrap_or_else(|| "nothing yet".to_owned())));
    if let Some(currency) = currency.map(clean) {
        let told = [("Spot saved", &view.total.spot_saved), ("Interrupted", &view.total.interruptions)];
        for (label, amount) in told.into_iter().filter_map(|(label, amount)| Some((label, amount.as_ref()?)))
        {
            text.push_str(&labelled(label, &format!("{} {currency}", rounded(amount))));
        }
    }
    text.push_str(&labelled("GPU-hours", &gpu_hours(view.total.gpu_seconds)));
    text.push_str(&labelled("As of", &clean(&view.as_of)));
    if !view.classes.is_empty() {
        let rows = view.classes.iter().map(|class| {
            let mut row = vec![class_name(&format!("{:?}", class.class))];
            row.extend(numbers(&class.cost, currency));
            row.push(bar(&class.cost, &view.total));
            row
        });
        let header = header("CLASS", currency, &["SHARE"]);
        text = format!("{text}\n{}", aligned_table(header, rows, &[1, 2, 3]));
    }
    if !view.attempts.is_empty() {
        let rows = view.attempts.iter().map(|attempt| {
            let mut row = vec![attempt.attempt.to_string()];
            row.extend(numbers(&attempt.cost, currency));
            row
        });
        let header = header("ATTEMPT", currency, &[]);
        text = format!("{text}\n{}", aligned_table(header, rows, &[1, 2, 3]));
    }
    text
}

/// One line of `warpyard cost RUN --watch`, where output cannot be redrawn.
pub fn watch_line(view: &RunCostView) -> String {
    let cost = so_far(view).unwrap_or_else(|| "nothing yet".to_owned());
    format!("{}  {cost}  {} GPU-hours\n", clean(&view.as_of), gpu_hours(view.total.gpu_seconds))
}

/// `12.34 USD so far (2.99 USD/h)`; `None` if it has used nothing.
pub fn so_far(view: &RunCostView) -> Option<String> {
    let total = &view.total;
    let is_nothing = is_zero(&total.amount) && is_zero(&total.per_hour) && total.gpu_seconds == 0;
    if is_nothing {
        return None;
    }
    let unpriced = gpu_hours(total.unpriced_gpu_seconds);
    let Some(currency) = view.currency.as_deref().map(clean) else {
        return Some(format!("no price is set for {} GPU-hours", gpu_hours(total.gpu_seconds)));
    };
    let mut text = format!("{} {currency}", rounded(&total.amount));
    if !is_zero(&total.per_hour) {
        text = format!("{text} so far ({} {currency}/h)", rounded(&total.per_hour));
    }
    if total.unpriced_gpu_seconds > 0 {
        text = format!("{text}, and {unpriced} GPU-hours without a price");
    }
    Some(text)
}

/// `warpyard cost`: the most expensive first, days and classes in their order, and the sum.
pub fn report(report: &CostReport) -> String {
    let currency = report.currency.as_deref();
    let with_unpriced = report.total.unpriced_gpu_seconds > 0;
    let mut rows: Vec<&CostRow> = report.items.iter().collect();
    if !matches!(report.by, CostGrouping::Day | CostGrouping::Class) {
        // Stable: rows with the same cost stay in the order of their keys.
        rows.sort_by_key(|row| Reverse((number(&row.cost.amount), row.cost.gpu_seconds)));
    }
    let with_saved = currency.is_some() && report.total.spot_saved.is_some();
    let with_interruptions = currency.is_some() && report.total.interruptions.is_some();
    let if_any = |amount: &Option<String>| amount.as_deref().map_or_else(none, rounded);
    let line = |name: String, cost: &Cost| {
        let mut line = vec![name];
        line.extend(numbers(cost, currency));
        line.extend(with_saved.then(|| if_any(&cost.spot_saved)));
        line.extend(with_interruptions.then(|| if_any(&cost.interruptions)));
        line.extend(with_unpriced.then(|| gpu_hours(cost.unpriced_gpu_seconds)));
        line
    };
    let total = line("TOTAL".to_owned(), &report.total);
    let lines = rows.into_iter().map(|row| line(key(report.by, row), &row.cost)).chain([total]);
    let by = format!("{:?}", report.by).to_uppercase();
    let columns =
        [("SPOT SAVED", with_saved), ("INTERRUPTIONS", with_interruptions), ("WITHOUT PRICE", with_unpriced)];
    let more: Vec<_> = columns.into_iter().filter_map(|(name, is_shown)| is_shown.then_some(name)).collect();
    aligned_table(header(&by, currency, &more), lines, &[1, 2, 3, 4, 5, 6])
}

/// The gaps in a report, and what to do about them.
pub fn remarks(currency: Option<&str>, total: &Cost) -> String {
    let hours = gpu_hours(total.unpriced_gpu_seconds);
    match currency {
        None => "\nhint: there are no prices yet: create a PriceSheet, see examples/prices.yaml\n".to_owned(),
        Some(_) if total.unpriced_gpu_seconds > 0 => format!(
            "\nhint: {hours} GPU-hours have no price: add one for their nodes to a PriceSheet, see \
             examples/prices.yaml; they are charged as soon as it is there\n"
        ),
        Some(_) => String::new(),
    }
}

fn header(first: &str, currency: Option<&str>, more: &[&str]) -> Vec<String> {
    let (cost, per_hour) = match currency.map(clean) {
        Some(currency) => (format!("COST ({currency})"), format!("{currency}/H")),
        None => ("COST".to_owned(), "PER HOUR".to_owned()),
    };
    let fixed = [first.to_owned(), cost, per_hour, "GPU-HOURS".to_owned()];
    fixed.into_iter().chain(more.iter().map(|name| (*name).to_owned())).collect()
}

fn numbers(cost: &Cost, currency: Option<&str>) -> [String; 3] {
    let priced = |amount: &str| if currency.is_some() { rounded(amount) } else { none() };
    let per_hour = if is_zero(&cost.per_hour) { none() } else { priced(&cost.per_hour) };
    [priced(&cost.amount), per_hour, gpu_hours(cost.gpu_seconds)]
}

fn key(by: CostGrouping, row: &CostRow) -> String {
    match (&row.key, by) {
        (None, _) => none(),
        (Some(key), CostGrouping::Class) => class_name(key),
        (Some(key), _) => key.clone(),
    }
}

/// `NodeIdle` as `node idle`; also for classes of a newer server.
fn class_name(class: &str) -> String {
    let mut name = String::new();
    for letter in class.chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push(' ');
        }
        name.extend(letter.to_lowercase());
    }
    name.replace(['-', '_'], " ")
}

/// A bar with the share of the total: of the money, or of the GPU time if there is no money.
fn bar(part: &Cost, total: &Cost) -> String {
    let (part, total) = if is_zero(&total.amount) {
        (Decimal::from(part.gpu_seconds), Decimal::from(total.gpu_seconds))
    } else {
        (number(&part.amount), number(&total.amount))
    };
    let share = part.checked_div(total).unwrap_or_default().clamp(Decimal::ZERO, Decimal::ONE);
    let filled = (share * Decimal::from(BAR_LENGTH)).round().to_usize().unwrap_or_default().min(BAR_LENGTH);
    let percent = (share * Decimal::ONE_HUNDRED).round();
    format!("{}{} {percent:>3} %", "█".repeat(filled), "·".repeat(BAR_LENGTH - filled))
}

#[cfg(test)]
#[path = "render_cost_tests.rs"]
mod tests;
