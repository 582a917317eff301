use api_types::rest::{
    AttemptCost, ClassCost, Cost, CostGrouping, CostReport, CostRow, RunCostView, UsageClass,
};

use super::{remarks, report, run_cost, so_far, watch_line};

fn cost(amount: &str, per_hour: &str, gpu_seconds: i64) -> Cost {
    Cost { amount: amount.to_owned(), per_hour: per_hour.to_owned(), gpu_seconds, ..Cost::default() }
}

fn running() -> RunCostView {
    let productive = ClassCost { class: UsageClass::Productive, cost: cost("191.36", "95.68", 230_400) };
    let starting = ClassCost { class: UsageClass::Starting, cost: cost("3.189333", "0", 3_840) };
    RunCostView {
        namespace: "nlp".to_owned(),
        name: "llama-ft".to_owned(),
        currency: Some("USD".to_owned()),
        as_of: "2026-11-15T12:00:00Z".to_owned(),
        total: cost("194.549333", "95.68", 234_240),
        classes: vec![productive, starting],
        attempts: vec![AttemptCost { attempt: 1, cost: cost("194.549333", "95.68", 234_240) }],
    }
}

fn row(key: Option<&str>, cost: Cost) -> CostRow {
    CostRow { key: key.map(str::to_owned), cost }
}

fn report_of(by: CostGrouping, total: Cost, items: Vec<CostRow>) -> CostReport {
    CostReport {
        by,
        since: "2026-11-01".to_owned(),
        until: "2026-11-15".to_owned(),
        currency: Some("USD".to_owned()),
        as_of: "2026-11-15T12:00:00Z".to_owned(),
        total,
        items,
        continue_token: None,
    }
}

#[test]
fn the_cost_of_a_run_is_one_screen() {
    insta::assert_snapshot!(run_cost(&running()), @r"
    Run         nlp/llama-ft
    Cost        194.55 USD so far (95.68 USD/h)
    GPU-hours   65.1
    As of       2026-11-15T12:00:00Z

    CLASS        COST (USD)   USD/H   GPU-HOURS   SHARE
    productive       191.36   95.68        64.0   ████████████████████  98 %
    starting           3.19       -         1.1   ····················   2 %

    ATTEMPT   COST (USD)   USD/H   GPU-HOURS
    1             194.55   95.68        65.1
    ");
}

#[test]
fn a_run_says_what_spot_saved_and_what_interruptions_cost() {
    let mut view = running();
    view.total.spot_saved = Some("311.4".to_owned());
    view.total.interruptions = Some("3.189333".to_owned());
    let text = run_cost(&view);
    assert!(text.contains("\nSpot saved  311.40 USD\nInterrupted 3.19 USD\nGPU-hours"), "{text}");
    view.total.spot_saved = Some("-2".to_owned());
    assert!(run_cost(&view).contains("\nSpot saved  -2.00 USD\n"), "spot may be the dearer one");
    view.currency = None;
    assert!(!run_cost(&view).contains("Spot"), "of which currency?");
}

#[test]
fn a_report_has_columns_for_spot_and_interruptions_only_where_there_are_any() {
    let saved = Cost { spot_saved: Some("12.5".to_owned()), ..cost("8", "0", 7_200) };
    let lost = Cost { interruptions: Some("0.75".to_owned()), ..cost("2", "0", 3_600) };
    let items = vec![row(Some("nlp/a"), saved.clone()), row(Some("nlp/b"), lost.clone())];
    let total =
        Cost { spot_saved: saved.spot_saved, interruptions: lost.interruptions, ..cost("10", "0", 10_800) };
    insta::assert_snapshot!(report(&report_of(CostGrouping::Run, total, items)), @r"
    RUN     COST (USD)   USD/H   GPU-HOURS   SPOT SAVED   INTERRUPTIONS
    nlp/a         8.00       -         2.0        12.50               -
    nlp/b         2.00       -         1.0            -            0.75
    TOTAL        10.00       -         3.0        12.50            0.75
    ");
}

#[test]
fn a_run_that_used_nothing_says_so() {
    let total = cost("0", "0", 0);
    let view = RunCostView { total, classes: vec![], attempts: vec![], ..running() };
    insta::assert_snapshot!(run_cost(&view), @r"
    Run         nlp/llama-ft
    Cost        nothing yet
    GPU-hours   0.0
    As of       2026-11-15T12:00:00Z
    ");
    assert_eq!(so_far(&view), None);
}

#[test]
fn the_cost_so_far_is_one_line() {
    let ended = RunCostView { total: cost("194.549333", "0", 234_240), ..running() };
    let without_prices = RunCostView { currency: None, total: cost("0", "0", 7_200), ..running() };
    let partly =
        RunCostView { total: Cost { unpriced_gpu_seconds: 3_600, ..cost("1.5", "0", 7_200) }, ..running() };
    let lines: Vec<String> = [running(), ended, without_prices, partly].iter().filter_map(so_far).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    194.55 USD so far (95.68 USD/h)
    194.55 USD
    no price is set for 2.0 GPU-hours
    1.50 USD, and 1.0 GPU-hours without a price
    ");
    insta::assert_snapshot!(watch_line(&running()), @r"
    2026-11-15T12:00:00Z  194.55 USD so far (95.68 USD/h)  65.1 GPU-hours
    ");
}

#[test]
fn a_report_has_the_dearest_first_and_its_total_last() {
    let page = report_of(
        CostGrouping::Run,
        cost("204.55", "95.68", 241_440),
        vec![
            row(None, cost("4", "0", 3_600)),
            row(Some("nlp/bert\u{1b}[2J"), cost("6.000667", "0", 3_600)),
            row(Some("nlp/llama-ft"), cost("194.549333", "95.68", 234_240)),
        ],
    );
    insta::assert_snapshot!(report(&page), @r"
    RUN            COST (USD)   USD/H   GPU-HOURS
    nlp/llama-ft       194.55   95.68        65.1
    nlp/bert�[2J         6.00       -         1.0
    -                    4.00       -         1.0
    TOTAL              204.55   95.68        67.1
    ");
    assert_eq!(remarks(page.currency.as_deref(), &page.total), "");
}

#[test]
fn days_and_classes_stay_in_their_order() {
    let days = report_of(
        CostGrouping::Day,
        cost("3", "0", 7_200),
        vec![row(Some("2026-11-01"), cost("1", "0", 3_600)), row(Some("2026-11-02"), cost("2", "0", 3_600))],
    );
    let classes = report_of(
        CostGrouping::Class,
        cost("3", "0", 7_200),
        vec![row(Some("NodeIdle"), cost("1", "0", 3_600)), row(Some("Productive"), cost("2", "0", 3_600))],
    );
    insta::assert_snapshot!(format!("{}\n{}", report(&days), report(&classes)), @r"
    DAY          COST (USD)   USD/H   GPU-HOURS
    2026-11-01         1.00       -         1.0
    2026-11-02         2.00       -         1.0
    TOTAL              3.00       -         2.0

    CLASS        COST (USD)   USD/H   GPU-HOURS
    node idle          1.00       -         1.0
    productive         2.00       -         1.0
    TOTAL              3.00       -         2.0
    ");
}

#[test]
fn what_has_no_price_is_told_and_how_to_mend_it() {
    let total = Cost { unpriced_gpu_seconds: 3_600, ..cost("1.5", "0", 7_200) };
    let partly = report_of(CostGrouping::User, total.clone(), vec![row(Some("alice"), total)]);
    let nothing = cost("0", "0", 7_200);
    let without = CostReport {
        currency: None,
        ..report_of(CostGrouping::User, nothing.clone(), vec![row(Some("alice"), nothing)])
    };
    let text = [&partly, &without]
        .map(|page| report(page) + &remarks(page.currency.as_deref(), &page.total))
        .join("\n");
    insta::assert_snapshot!(text, @r"
    USER    COST (USD)   USD/H   GPU-HOURS   WITHOUT PRICE
    alice         1.50       -         2.0             1.0
    TOTAL         1.50       -         2.0             1.0

    hint: 1.0 GPU-hours have no price: add one for their nodes to a PriceSheet, see examples/prices.yaml; they are charged as soon as it is there

    USER    COST   PER HOUR   GPU-HOURS
    alice      -          -         2.0
    TOTAL      -          -         2.0

    hint: there are no prices yet: create a PriceSheet, see examples/prices.yaml
    ");
}
