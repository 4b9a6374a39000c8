//! Float types of the kernels: f32 for training, f64 for tests.

/// A float type for the kernels.
pub trait Real:
    faer::traits::ComplexField
    + faer::traits::RealField
    + Copy
    + PartialOrd
    + Send
    + Sync
    + std::fmt::Debug
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + std::ops::AddAssign
    + std::ops::MulAssign
    + 'static
{
    /// The number 0.
    const ZERO: Self;
    /// The number 1.
    const ONE: Self;
    /// Rounds from f64.
    fn from_f64(value: f64) -> Self;
    /// Converts to f64.
    fn to_f64(self) -> f64;
    /// Exponential function; vectorizes in f32.
    fn fast_exp(self) -> Self;
    /// Square root.
    fn square_root(self) -> Self;
    /// Computes self * a + b with one rounding.
    fn fma(self, a: Self, b: Self) -> Self;
    /// Returns the larger of two numbers.
    fn larger(self, other: Self) -> Self;
    /// The error function.
    fn erf(self) -> Self;
    /// Rounded to the nearest bfloat16, ties to even.
    fn bf16(self) -> Self;
}

impl Real for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    #[inline(always)]
    fn from_f64(value: f64) -> f64 {
        value
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn fast_exp(self) -> f64 {
        self.exp()
    }
    #[inline(always)]
    fn square_root(self) -> f64 {
        self.sqrt()
    }
    #[inline(always)]
    fn fma(self, a: f64, b: f64) -> f64 {
        self.mul_add(a, b)
    }
    #[inline(always)]
    fn larger(self, other: f64) -> f64 {
        if self > other { self } else { other }
    }
    #[inline(always)]
    fn erf(self) -> f64 {
        libm::erf(self)
    }
    #[inline(always)]
    fn bf16(self) -> f64 {
        f64::from((self as f32).bf16())
    }
}

/// 1.5 * 2^23: adding it leaves the nearest integer in the low bits of the mantissa.
const MAGIC: f32 = 12_582_912.0;

impl Real for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    #[inline(always)]
    fn from_f64(value: f64) -> f32 {
        value as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    /// Splits off n ln 2 exactly (in two parts), then uses the Taylor series to the seventh power on |r| <=
    /// ln 2 / 2.
    #[inline(always)]
    fn fast_exp(self) -> f32 {
        let x = if self > 88.0 { 88.0 } else { self };
        let x = if x < -87.0 { -87.0 } else { x };
        let shifted = x.mul_add(std::f32::consts::LOG2_E, MAGIC);
        let n = shifted - MAGIC;
        let r = n.mul_add(-0.693_359_375, x);
        let r = n.mul_add(2.121_944_4e-4, r);
        let mut p = 1.0 / 5040.0;
        p = r.mul_add(p, 1.0 / 720.0);
        p = r.mul_add(p, 1.0 / 120.0);
        p = r.mul_add(p, 1.0 / 24.0);
        p = r.mul_add(p, 1.0 / 6.0);
        p = r.mul_add(p, 0.5);
        p = r.mul_add(p, 1.0);
        p = r.mul_add(p, 1.0);
        let power = shifted.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(127) << 23;
        p * f32::from_bits(power)
    }
    #[inline(always)]
    fn square_root(self) -> f32 {
        self.sqrt()
    }
    #[inline(always)]
    fn fma(self, a: f32, b: f32) -> f32 {
        self.mul_add(a, b)
    }
    #[inline(always)]
    fn larger(self, other: f32) -> f32 {
        if self > other { self } else { other }
    }
    #[inline(always)]
    fn erf(self) -> f32 {
        libm::erff(self)
    }
    #[inline(always)]
    fn bf16(self) -> f32 {
        let bits = self.to_bits();
        if self.is_nan() {
            return self;
        }
        f32::from_bits(bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_ulp() {
        let mut x = -80.0f32;
        while x < 80.0 {
            let exact = f64::from(x).exp();
            let error = (f64::from(x.fast_exp()) - exact).abs() / exact;
            assert!(error < 2.5e-7, "exp({x}) is off by {error:e}");
            x += 0.0137;
        }
        assert!((-1.0e30f32).fast_exp() < 1e-37);
    }

    #[test]
    fn bf16_rounds_to_even() {
        assert_eq!(1.003_906_25f32.bf16().to_bits(), 1.0f32.to_bits());
        assert_eq!(1.011_718_75f32.bf16().to_bits(), 1.015_625f32.to_bits());
    }
}
