//! The ledger's sums as the API shows them: decimals for people, JSON and CSV. Pure.

use api_types::rest::{
    AttemptCost, ClassCost, Cost, CostGrouping, CostReport, CostRow, RunCostView, UsageClass,
};
use costing::{Amount, Class, Moment};
use jiff::Timestamp;
use store::{Grouping, Report, ReportRow, RunCost};

use crate::cost::query::{Period, name, to_date};

const SECONDS_PER_HOUR: i128 = 3_600;

/// One run.
pub fn run_cost(namespace: &str, run: &str, cost: &RunCost, as_of: Moment) -> RunCostView {
    RunCostView {
        namespace: namespace.to_owned(),
        name: run.to_owned(),
        currency: cost.currency.clone(),
        as_of: rfc3339(as_of),
        total: sum(&cost.total),
        classes: cost
            .classes
            .iter()
            .map(|(class, row)| ClassCost { class: usage_class(*class), cost: sum(row) })
            .collect(),
        attempts: cost
            .attempts
            .iter()
            .map(|(attempt, row)| AttemptCost { attempt: *attempt, cost: sum(row) })
            .collect(),
    }
}

/// A page of a report.
pub fn report(
    by: CostGrouping,
    period: Period,
    report: &Report,
    as_of: Moment,
    continue_token: Option<String>,
) -> CostReport {
    CostReport {
        by,
        since: to_date(period.since).to_string(),
        until: to_date(period.until).to_string(),
        currency: report.currency.clone(),
        as_of: rfc3339(as_of),
        total: sum(&report.total),
        items: report.rows.iter().map(|row| CostRow { key: row.key.clone(), cost: sum(row) }).collect(),
        continue_token,
    }
}

/// The rows of a page as RFC 4180, with a header.
pub fn csv(report: &CostReport) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let header = [
        name(report.by),
        "amount",
        "currency",
        "per_hour",
        "gpu_seconds",
        "unpriced_gpu_seconds",
        "spot_saved",
        "interruptions",
    ];
    let rows = report.items.iter().map(|row| {
        [
            text_cell(row.key.as_deref().unwrap_or_default()),
            row.cost.amount.clone(),
            report.currency.clone().unwrap_or_default(),
            row.cost.per_hour.clone(),
            row.cost.gpu_seconds.to_string(),
            row.cost.unpriced_gpu_seconds.to_string(),
            row.cost.spot_saved.clone().unwrap_or_else(|| "0".to_owned()),
            row.cost.interruptions.clone().unwrap_or_else(|| "0".to_owned()),
        ]
    });
    writer.write_record(header).expect("writing to memory does not fail");
    for row in rows {
        writer.write_record(row).expect("writing to memory does not fail");
    }
    writer.into_inner().expect("writing to memory does not fail")
}

/// The store's word for a grouping: the store does not know the API.
pub fn grouping(by: CostGrouping) -> Grouping {
    match by {
        CostGrouping::Run => Grouping::Run,
        CostGrouping::User => Grouping::User,
        CostGrouping::Queue => Grouping::Queue,
        CostGrouping::Namespace => Grouping::Namespace,
        CostGrouping::Day => Grouping::Day,
        CostGrouping::Class => Grouping::Class,
    }
}

fn sum(row: &ReportRow) -> Cost {
    let if_any = |amount: Amount| (amount != Amount::ZERO).then(|| decimal(amount));
    Cost {
        amount: decimal(row.amount),
        per_hour: decimal(Amount(row.rate.0 * SECONDS_PER_HOUR)),
        gpu_seconds: row.gpu_seconds,
        unpriced_gpu_seconds: row.unpriced_gpu_seconds,
        spot_saved: if_any(row.saved),
        interruptions: if_any(row.interruptions),
    }
}

fn decimal(amount: Amount) -> String {
    amount.to_decimal().normalize().to_string()
}

fn usage_class(class: Class) -> UsageClass {
    match class {
        Class::Productive => UsageClass::Productive,
        Class::Starting => UsageClass::Starting,
        Class::Lost => UsageClass::Lost,
        Class::NodeStarting => UsageClass::NodeStarting,
        Class::NodeIdle => UsageClass::NodeIdle,
    }
}

fn rfc3339(moment: Moment) -> String {
    Timestamp::from_second(moment.0).unwrap_or_default().to_string()
}

/// Names come from people, and a spreadsheet reads a cell that begins with such a character as a formula. An
/// apostrophe in front marks it as text. Numbers are ours, and stay as they are.
fn text_cell(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
        format!("'{text}")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use api_types::rest::{Cost, CostGrouping, CostReport, CostRow};
    use costing::{Amount, Day, Moment};
    use store::{Report, ReportRow};

    use super::{csv, report};
    use crate::cost::query::Period;

    /// One unit of the currency.
    const ONE: i128 = costing::money::UNITS_PER_CURRENCY;

    #[test]
    fn rates_are_shown_per_hour_and_sums_to_six_places() {
        let row = ReportRow {
            key: Some("nlp/a".to_owned()),
            amount: Amount(ONE * 5 / 2),
            rate: Amount(ONE / 3_600 * 3),
            saved: Amount(ONE / 4),
            interruptions: Amount::ZERO,
            gpu_seconds: 7_200,
            unpriced_gpu_seconds: 0,
        };
        let page = Report {
            currency: Some("USD".to_owned()),
            rows: vec![row.clone()],
            more: false,
            total: ReportRow { key: None, ..row },
        };
        let period = Period { since: Day(20_758), until: Day(20_772) };
        let view = report(CostGrouping::Run, period, &page, Moment(1_794_700_800), None);
        assert_eq!((view.since.as_str(), view.until.as_str()), ("2026-11-01", "2026-11-15"));
        assert_eq!(view.as_of, "2026-11-15T00:00:00Z");
        assert_eq!((view.items[0].cost.amount.as_str(), view.items[0].cost.per_hour.as_str()), ("2.5", "3"));
        assert_eq!(view.items[0].cost.spot_saved.as_deref(), Some("0.25"));
        assert_eq!(view.items[0].cost.interruptions, None, "nothing is not told");
        assert_eq!(view.total, view.items[0].cost);
    }

    #[test]
    fn csv_quotes_what_must_be_and_no_name_becomes_a_formula() {
        let row = |key: Option<&str>, amount: &str| CostRow {
            key: key.map(str::to_owned),
            cost: Cost {
                amount: amount.to_owned(),
                per_hour: "0".to_owned(),
                gpu_seconds: 60,
                unpriced_gpu_seconds: 0,
                spot_saved: key.and(Some("7.5".to_owned())),
                interruptions: None,
            },
        };
        let page = CostReport {
            by: CostGrouping::User,
            since: "2026-11-01".to_owned(),
            until: "2026-11-15".to_owned(),
            currency: Some("USD".to_owned()),
            as_of: "2026-11-15T00:00:00Z".to_owned(),
            total: row(None, "0").cost,
            items: vec![
                row(None, "-0.25"),
                row(Some("=HYPERLINK(\"http://x\",\"y\")"), "1"),
                row(Some("@a"), "1"),
                row(Some("Doe, \"Jo\""), "2.990001"),
            ],
            continue_token: None,
        };
        let text = String::from_utf8(csv(&page)).expect("UTF-8");
        assert_eq!(
            text,
            "user,amount,currency,per_hour,gpu_seconds,unpriced_gpu_seconds,spot_saved,interruptions\r\n\
             ,-0.25,USD,0,60,0,0,0\r\n\
             \"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\",1,USD,0,60,0,7.5,0\r\n\
             '@a,1,USD,0,60,0,7.5,0\r\n\
             \"Doe, \"\"Jo\"\"\",2.990001,USD,0,60,0,7.5,0\r\n"
        );
    }
}
