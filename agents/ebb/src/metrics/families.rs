//! Metrics by name, each with its type and help.

use prometheus::TextEncoder;
use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};

/// The metrics, in the order in which they are printed.
#[derive(Debug, Default)]
pub(super) struct Families(Vec<MetricFamily>);

impl Families {
    /// One value that goes up and down.
    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        let metric = Metric::from_gauge(gauge(value));
        self.add(name, help, MetricType::GAUGE, vec![metric]);
    }

    /// One value that goes up and down for each value of a label.
    pub(super) fn gauges<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl IntoIterator<Item = (&'a str, f64)>,
    ) {
        let set = |metric: &mut Metric, value| metric.set_gauge(gauge(value));
        self.add(name, help, MetricType::GAUGE, labelled(label, samples, set));
    }

    /// One counter for each value of a label.
    pub(super) fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl IntoIterator<Item = (&'a str, f64)>,
    ) {
        let set = |metric: &mut Metric, value| {
            let mut counter = Counter::default();
            counter.set_value(value);
            metric.set_counter(counter);
        };
        self.add(name, help, MetricType::COUNTER, labelled(label, samples, set));
    }

    /// A histogram: the upper limit of each class with the number in this class alone, the number in all, and their sum.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        classes: impl IntoIterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        let mut up_to: u64 = 0;
        let bucket = |(limit, number): (f64, u64)| {
            up_to = up_to.saturating_add(number);
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(limit);
            bucket.set_cumulative_count(up_to);
            bucket
        };
        let mut histogram = Histogram::default();
        histogram.set_bucket(classes.into_iter().map(bucket).collect());
        histogram.set_sample_count(count);
        histogram.set_sample_sum(sum);
        let mut metric = Metric::from_label(Vec::new());
        metric.set_histogram(histogram);
        self.add(name, help, MetricType::HISTOGRAM, vec![metric]);
    }

    fn add(&mut self, name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) {
        // The format knows no metric without a value.
        if metrics.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(metrics);
        self.0.push(family);
    }

    /// All of them in the text format 0.0.4, the one that node_exporter's textfile collector reads.
    pub(super) fn text(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.0)
    }
}

fn gauge(value: f64) -> Gauge {
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    gauge
}

/// A metric for each value of the label.
fn labelled<'a>(
    label: &str,
    samples: impl IntoIterator<Item = (&'a str, f64)>,
    set: impl Fn(&mut Metric, f64),
) -> Vec<Metric> {
    let metric = |(of, value): (&str, f64)| {
        let mut pair = LabelPair::default();
        pair.set_name(label.to_owned());
        pair.set_value(of.to_owned());
        let mut metric = Metric::from_label(vec![pair]);
        set(&mut metric, value);
        metric
    };
    samples.into_iter().map(metric).collect()
}
