//! The option `--fair` of `keeptime regulate`.

use std::str::FromStr;

use throttle_fair::By;

/// Value of `--fair`: an implementation, none, or rho, which was the only value once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fair {
    By(By),
    None,
    Rho(f64),
}

impl FromStr for Fair {
    type Err = String;

    fn from_str(text: &str) -> Result<Fair, String> {
        if text == "none" {
            return Ok(Fair::None);
        }
        if let Ok(by) = text.parse() {
            return Ok(Fair::By(by));
        }
        let rho = text.parse().ok().filter(|rho: &f64| rho.is_finite());
        let rho = rho.ok_or("expected auto, bpf, user, none, or a factor rho, as in 3")?;
        Ok(Fair::Rho(rho))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn implementation_and_rho_are_told_apart() {
        assert_eq!("auto".parse(), Ok(Fair::By(By::Auto)));
        assert_eq!("bpf".parse(), Ok(Fair::By(By::Bpf)));
        assert_eq!("user".parse(), Ok(Fair::By(By::User)));
        assert_eq!("none".parse(), Ok(Fair::None));
        assert_eq!("0.5".parse(), Ok(Fair::Rho(0.5)));
        for text in ["", "BPF", "x", "NaN", "inf", "bpf:1"] {
            assert!(text.parse::<Fair>().unwrap_err().contains("expected auto, bpf"), "{text}");
        }
    }
}
