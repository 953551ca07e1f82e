//! A baseline measured beside each figure: machines change by a half from minute to minute, so that a figure says
//! something only when held against what was measured directly before it and directly after.

/// What figures are held against, measured before the first of them and after each: neighbours share one.
pub struct Beside<'b, T> {
    measure: Box<dyn FnMut() -> anyhow::Result<T> + 'b>,
    measured: Vec<T>,
}

impl<'b, T: Copy> Beside<'b, T> {
    /// Of a baseline; nothing is measured yet.
    pub fn new(measure: impl FnMut() -> anyhow::Result<T> + 'b) -> Self {
        Self { measure: Box::new(measure), measured: Vec::new() }
    }

    /// Measures a figure; also what the baseline was before it and after it.
    ///
    /// # Errors
    /// Those of the figure and of the baseline.
    pub fn figure<F>(&mut self, figure: impl FnOnce() -> anyhow::Result<F>) -> anyhow::Result<(F, [T; 2])> {
        let before = match self.measured.last() {
            Some(before) => *before,
            None => self.again()?,
        };
        let figure = figure()?;
        Ok((figure, [before, self.again()?]))
    }

    /// All that was measured of the baseline, in turn.
    pub fn measured(&self) -> &[T] {
        &self.measured
    }

    fn again(&mut self) -> anyhow::Result<T> {
        let measured = (self.measure)()?;
        self.measured.push(measured);
        Ok(measured)
    }
}

/// The mean; of nothing, 0.
pub fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len().max(1) as f64
}

/// The one in the middle, or the mean of the two there; of nothing, 0.
pub fn median(figures: &[f64]) -> f64 {
    let mut ascending = figures.to_vec();
    ascending.sort_by(f64::total_cmp);
    let middle = ascending.len() / 2;
    match ascending.len() {
        0 => 0.0,
        count if count % 2 == 0 => mean(&ascending[middle - 1..=middle]),
        _ => ascending[middle],
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use anyhow::bail;

    use super::*;

    #[test]
    fn neighbours_share_the_baseline_between_them() {
        let log = RefCell::new(Vec::new());
        let mut rates = [100.0, 120.0, 80.0].into_iter();
        let mut beside = Beside::new(|| {
            log.borrow_mut().push("baseline");
            Ok(rates.next().expect("three are enough"))
        });
        let mut figure = |name| {
            beside.figure(|| {
                log.borrow_mut().push(name);
                Ok(name)
            })
        };
        assert_eq!(figure("first").expect("measured"), ("first", [100.0, 120.0]));
        assert_eq!(figure("second").expect("measured"), ("second", [120.0, 80.0]));
        assert_eq!(beside.measured(), [100.0, 120.0, 80.0]);
        assert_eq!(*log.borrow(), ["baseline", "first", "baseline", "second", "baseline"]);
    }

    #[test]
    fn a_figure_that_fails_is_none() {
        let mut beside = Beside::new(|| Ok(1.0));
        assert!(beside.figure(|| -> anyhow::Result<()> { bail!("no answer") }).is_err());
    }

    #[test]
    fn means_and_medians() {
        for (figures, of_mean, of_median, why) in [
            (&[][..], 0.0, 0.0, "nothing"),
            (&[7.0], 7.0, 7.0, "one"),
            (&[100.0, 120.0], 110.0, 110.0, "two neighbours"),
            (&[9.0, 1.0, 2.0], 4.0, 2.0, "an outlier moves the mean, not the median"),
            (&[4.0, 1.0, 100.0, 2.0], 26.75, 3.0, "an even number has two in the middle"),
        ] {
            assert_eq!((mean(figures), median(figures)), (of_mean, of_median), "{why}");
        }
    }
}
