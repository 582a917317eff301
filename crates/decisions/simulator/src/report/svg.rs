//! Plots as SVG text: axes, areas, lines and bars, in the colours of the page.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 26.0;

/// Where a tick is, from 0 to 1 along its axis, and what it says.
pub(super) struct Tick {
    pub at: f64,
    pub label: String,
}

/// One plot. Values are given in the unit of the y axis, places along x from 0 to 1.
pub(super) struct Plot {
    body: String,
    y_max: f64,
    label: String,
}

impl Plot {
    /// Axes and grid; `label` describes the plot to people who cannot see it.
    pub fn new(label: &str, y_max: f64, y_label: impl Fn(f64) -> String, x_ticks: &[Tick]) -> Self {
        let (step, y_max) = nice(y_max);
        let mut plot = Self { body: String::new(), y_max, label: label.to_owned() };
        let mut value = 0.0;
        // At most ten steps, by the choice of the step.
        while value <= y_max * 1.000_1 {
            let y = plot.y(value);
            plot.write(format_args!(
                r#"<line class="gridline" x1="{LEFT}" x2="{:.1}" y1="{y:.1}" y2="{y:.1}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0,
                escape(&y_label(value)),
            ));
            value += step;
        }
        for tick in x_ticks {
            let x = x(tick.at);
            plot.write(format_args!(
                r#"<line class="axis" x1="{x:.1}" x2="{x:.1}" y1="{:.1}" y2="{:.1}"/><text x="{x:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 4.0,
                HEIGHT - 6.0,
                escape(&tick.label),
            ));
        }
        plot.write(format_args!(
            r#"<line class="axis" x1="{LEFT}" x2="{:.1}" y1="{:.1}" y2="{:.1}"/>"#,
            WIDTH - RIGHT,
            HEIGHT - BOTTOM,
            HEIGHT - BOTTOM,
        ));
        plot
    }

    /// The area between two lines, coloured.
    pub fn area(&mut self, lower: &[f64], upper: &[f64], colour: usize, opacity: f64) {
        if upper.is_empty() {
            return;
        }
        let mut path = String::new();
        for (index, value) in upper.iter().enumerate() {
            self.point(&mut path, index, upper.len(), *value);
        }
        for index in (0..upper.len()).rev() {
            self.point(&mut path, index, upper.len(), lower.get(index).copied().unwrap_or(0.0));
        }
        self.write(format_args!(r#"<path d="{path}Z" fill="var(--c{colour})" fill-opacity="{opacity}"/>"#));
    }

    /// Values at equal distances.
    pub fn line(&mut self, values: &[f64], colour: usize) {
        let mut path = String::new();
        for (index, value) in values.iter().enumerate() {
            self.point(&mut path, index, values.len(), *value);
        }
        self.write(format_args!(r#"<path class="stroke" d="{path}" stroke="var(--c{colour})"/>"#));
    }

    /// Steps through points `(x, y)`.
    pub fn curve(&mut self, points: &[(f64, f64)], colour: usize) {
        let mut path = String::new();
        for (index, (at, value)) in points.iter().enumerate() {
            let command = if index == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{command}{:.1} {:.1}", x(*at), self.y(*value));
        }
        self.write(format_args!(r#"<path class="stroke" d="{path}" stroke="var(--c{colour})"/>"#));
    }

    /// A dashed line that values stay below.
    pub fn bound(&mut self, values: &[f64]) {
        let mut path = String::new();
        for (index, value) in values.iter().enumerate() {
            self.point(&mut path, index, values.len(), *value);
        }
        self.write(format_args!(r#"<path class="bound" d="{path}"/>"#));
    }

    /// One bar of several of equal width, with what it stands for below and its value above.
    pub fn bar(&mut self, index: usize, bars: usize, value: f64, label: &str, above: &str, colour: usize) {
        let width = span() / to_f64(bars.max(1));
        let left = LEFT + width * to_f64(index);
        let y = self.y(value);
        self.write(format_args!(
            r#"<rect x="{:.1}" y="{y:.1}" width="{:.1}" height="{:.1}" rx="2" fill="var(--c{colour})"><title>{} : {}</title></rect><text x="{:.1}" y="{:.1}" text-anchor="middle">{}</text><text x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            left + width * 0.12,
            width * 0.76,
            (HEIGHT - BOTTOM - y).max(0.0),
            escape(label),
            escape(above),
            left + width / 2.0,
            y - 5.0,
            escape(above),
            left + width / 2.0,
            HEIGHT - 6.0,
            escape(label),
        ));
    }

    /// The plot as an element.
    pub fn finish(self) -> String {
        format!(
            r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}">{}</svg>"#,
            escape(&self.label),
            self.body
        )
    }

    fn point(&self, path: &mut String, index: usize, points: usize, value: f64) {
        let at = if points > 1 { to_f64(index) / to_f64(points - 1) } else { 0.0 };
        let command = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{command}{:.1} {:.1}", x(at), self.y(value));
    }

    fn y(&self, value: f64) -> f64 {
        let share = if self.y_max > 0.0 { (value / self.y_max).clamp(0.0, 1.05) } else { 0.0 };
        (HEIGHT - BOTTOM) - share * (HEIGHT - BOTTOM - TOP)
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(text);
    }
}

/// Text that cannot be taken for markup.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[expect(clippy::cast_precision_loss, reason = "indexes of a plot are small")]
pub(super) fn to_f64(number: usize) -> f64 {
    number as f64
}

/// A step of 1, 2, 2.5 or 5 times a power of ten that gives at most six, and the end of the axis.
fn nice(max: f64) -> (f64, f64) {
    if max <= 0.0 {
        return (1.0, 1.0);
    }
    let power = 10f64.powf((max / 6.0).log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|it| it * power).find(|step| max / step <= 6.0);
    let step = step.unwrap_or(10.0 * power);
    (step, (max / step - 1e-9).ceil() * step)
}

fn x(at: f64) -> f64 {
    LEFT + at * span()
}

fn span() -> f64 {
    WIDTH - LEFT - RIGHT
}

#[cfg(test)]
mod tests {
    use super::{escape, nice};

    #[test]
    fn axes_end_on_round_numbers() {
        for (max, step, end) in
            [(576.0, 100.0, 600.0), (100.0, 20.0, 100.0), (7.0, 2.0, 8.0), (0.0, 1.0, 1.0)]
        {
            let (got_step, got_end) = nice(max);
            assert!(
                (got_step - step).abs() < 1e-9 && (got_end - end).abs() < 1e-9,
                "{max}: {got_step} {got_end}"
            );
        }
    }

    #[test]
    fn names_cannot_become_markup() {
        assert_eq!(escape("<script>\"&"), "&lt;script&gt;&quot;&amp;");
    }
}
