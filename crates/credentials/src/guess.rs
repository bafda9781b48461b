//! Whether a key looks like one that nobody drew: a placeholder, a test vector, a pattern.

/// Fewer different bytes than this are a pattern: of 32 drawn hexadecimal digits, one key in ten million has so few.
const MIN_DISTINCT: usize = 8;

/// Whether `key` has a pattern that no drawn key of 16 bytes or more has by chance: hardly any different bytes, one part
/// repeated, or a run such as 0, 1, 2, 3. It doesn't prove that a key is good: only who drew it knows that.
pub fn is_guessable(key: &[u8]) -> bool {
    let mut distinct = key.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let repeats = |period: usize| {
        let (earlier, later) = (key.iter(), key.iter().skip(period));
        earlier.zip(later).all(|(one, other)| one == other)
    };
    distinct.len() < MIN_DISTINCT || (1..=key.len() / 2).any(repeats) || is_run(key)
}

/// Whether more than half of the steps from byte to byte are one and the same.
fn is_run(key: &[u8]) -> bool {
    let later = key.iter().skip(1);
    let mut steps: Vec<u8> = key.iter().zip(later).map(|(one, next)| next.wrapping_sub(*one)).collect();
    steps.sort_unstable();
    let most = steps.chunk_by(PartialEq::eq).map(<[u8]>::len).max().unwrap_or(0);
    most.saturating_mul(2) > steps.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_guessable() {
        for key in [
            "",
            "0000000000000000000000000000000000000000",
            "abababababababababababababababab",
            "0123456789abcdef0123456789abcdef",
            "abcdefghijklmnopqrstuvwxyz012345",
            "zyxwvutsrqponmlkjihgfedcba987654",
        ] {
            assert!(is_guessable(key.as_bytes()), "{key}");
        }
        let vector: Vec<u8> = (0x70..0x90).collect();
        assert!(is_guessable(&vector), "the key of the published test vectors of PASETO");
    }

    #[test]
    fn what_was_drawn_is_not() {
        for _ in 0..200 {
            let mut key = [0; 32];
            getrandom::fill(&mut key).unwrap();
            assert!(!is_guessable(&key), "{key:?}");
            let digits: Vec<u8> = key.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
            assert!(!is_guessable(&digits), "{digits:?}");
        }
    }
}
