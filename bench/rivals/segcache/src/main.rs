//! The crate segcache under the loads of `pulse bench kv --part engine`: the same keys in the same
//! order, values and batches. One thread. Prints a line of JSON.
//!
//! usage: segcache-rival single|shared ITEMS KEY_BYTES VALUE_BYTES SET_SHARE uniform|zipf BATCH SECONDS

use std::time::{Duration, Instant};

const DRAWN: usize = 1 << 22;
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// splitmix64, as bench/macro/workload.h has it.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Zipf 0.99, as bench/macro/ycsb/zipfian.h has it.
struct Zipf {
    sums: Vec<f64>,
    items: u64,
    zeta: f64,
}

const THETA: f64 = 0.99;
const SUMMED: usize = 1024;

impl Zipf {
    fn new(items: u64) -> Zipf {
        let mut sums = vec![0.0];
        for i in 1..=SUMMED {
            sums.push(sums[i - 1] + (i as f64).powf(-THETA));
        }
        let power = 1.0 - THETA;
        let zeta = if items <= SUMMED as u64 {
            sums[items as usize]
        } else {
            let (from, to) = (SUMMED as f64 + 0.5, items as f64 + 0.5);
            sums[SUMMED] + (to.powf(power) - from.powf(power)) / power
        };
        Zipf { sums, items, zeta }
    }
    fn rank(&self, unit: f64) -> u64 {
        let sum = unit * self.zeta;
        if sum < self.sums[SUMMED] {
            let above = self.sums[1..].partition_point(|&s| s <= sum) + 1;
            return (above as u64 - 1).min(self.items - 1);
        }
        let power = 1.0 - THETA;
        let start = (SUMMED as f64 + 0.5).powf(power);
        let x = (start + (sum - self.sums[SUMMED]) * power).powf(1.0 / power);
        ((x + 0.5) as u64).saturating_sub(1).max(SUMMED as u64).min(self.items - 1)
    }
}

fn write_key(number: u64, key: &mut [u8]) {
    key[..8].copy_from_slice(&number.wrapping_mul(STEP).to_le_bytes());
    key[8..].fill(b'k');
}

struct Load {
    items: u64,
    key_bytes: usize,
    value_bytes: usize,
    batch: usize,
    seconds: f64,
    keys: Vec<u8>,
    sets: Vec<bool>,
}

/// What both releases do, though by other types.
trait Store {
    fn set(&mut self, key: &[u8], value: &[u8]) -> bool;
    /// The first byte of the value.
    fn get(&mut self, key: &[u8]) -> Option<u8>;
}

macro_rules! store {
    ($name:ident, $krate:ident) => {
        struct $name($krate::Segcache);
        impl $name {
            fn open(load: &Load) -> $name {
                // Slots for twice the items, so that none is lost; a heap in which nothing has to be
                // evicted, also when values are written anew.
                let power = (load.items * 2).next_power_of_two().trailing_zeros().max(16) as u8;
                let item = (load.key_bytes + load.value_bytes + 8 + 7) / 8 * 8;
                let heap = ((load.items as usize * item * 2 >> 20) + 256) << 20;
                $name(
                    $krate::Segcache::builder()
                        .hash_power(power)
                        .overflow_factor(1.0)
                        .heap_size(heap)
                        .segment_size(1 << 20)
                        .build()
                        .expect("the cache"),
                )
            }
        }
        impl Store for $name {
            fn set(&mut self, key: &[u8], value: &[u8]) -> bool {
                self.0.insert(key, value, None, Duration::ZERO).is_ok()
            }
            fn get(&mut self, key: &[u8]) -> Option<u8> {
                match self.0.get(key)?.value() {
                    $krate::Value::Bytes(bytes) => Some(bytes[0]),
                    $krate::Value::U64(number) => Some(number as u8),
                }
            }
        }
    };
}
store!(Single, segcache_single);
store!(Shared, segcache_shared);

fn run<S: Store>(mut store: S, load: &Load) {
    let mut key = vec![0u8; load.key_bytes];
    let mut value = vec![b'v'; load.value_bytes];
    let mut refused = 0u64;
    for number in 0..load.items {
        write_key(number, &mut key);
        let n = load.value_bytes.min(8);
        value[..n].copy_from_slice(&number.to_le_bytes()[..n]);
        refused += u64::from(!store.set(&key, &value));
    }
    let mut filled = 0u64;
    for number in 0..load.items {
        write_key(number, &mut key);
        filled += u64::from(store.get(&key).is_some());
    }
    value.fill(b'w');
    let (mut hits, mut missed, mut sum, mut done, mut at) = (0u64, 0u64, 0u64, 0u64, 0usize);
    let begin = Instant::now();
    while begin.elapsed().as_secs_f64() < load.seconds {
        for _ in 0..64 {
            if at + load.batch > DRAWN {
                at = 0;
            }
            for i in at..at + load.batch {
                let key = &load.keys[i * load.key_bytes..(i + 1) * load.key_bytes];
                if load.sets[i] {
                    refused += u64::from(!store.set(key, &value));
                } else if let Some(first) = store.get(key) {
                    hits += 1;
                    sum += u64::from(first);
                } else {
                    missed += 1;
                }
            }
            at += load.batch;
        }
        done += 64 * load.batch as u64;
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{{\"ops_per_s\": {:.1}, \"filled\": {filled}, \"hits\": {hits}, \"missed\": {missed}, \
         \"refused\": {refused}, \"sum\": {sum}}}",
        done as f64 / seconds
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    assert_eq!(args.len(), 8, "usage: single|shared ITEMS KEY VALUE SET_SHARE uniform|zipf BATCH SECONDS");
    let items: u64 = args[1].parse().expect("items");
    let key_bytes: usize = args[2].parse().expect("bytes of a key");
    let set_share: f64 = args[4].parse().expect("the share of sets");
    let zipf = (args[5] == "zipf").then(|| Zipf::new(items));
    let mut numbers = Random(1);
    let mut keys = vec![0u8; DRAWN * key_bytes];
    for i in 0..DRAWN {
        let number = match &zipf {
            Some(zipf) => mix(zipf.rank(numbers.unit())) % items,
            None => numbers.below(items),
        };
        write_key(number, &mut keys[i * key_bytes..(i + 1) * key_bytes]);
    }
    let mut draws = Random(2);
    let load = Load {
        items,
        key_bytes,
        value_bytes: args[3].parse().expect("bytes of a value"),
        batch: args[6].parse().expect("a batch"),
        seconds: args[7].parse().expect("seconds"),
        keys,
        sets: (0..DRAWN).map(|_| draws.unit() < set_share).collect(),
    };
    match args[0].as_str() {
        "single" => run(Single::open(&load), &load),
        "shared" => run(Shared::open(&load), &load),
        other => panic!("there is no {other}"),
    }
}
