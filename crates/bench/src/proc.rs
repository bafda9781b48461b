//! What a process costs: processor time and memory, as `/proc` tells. Processor time doesn't drift with the neighbours of
//! the machine as throughput does.

use std::fs;

use anyhow::Context;

/// Ticks a second; the same on every Linux that this runs on.
const TICKS: f64 = 100.0;

fn stat(pid: u32) -> anyhow::Result<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name may hold anything, but for a closing parenthesis after its own.
    let (_, fields) = text.rsplit_once(')').context("/proc/PID/stat is not as expected")?;
    Ok(fields.split_whitespace().map(str::to_owned).collect())
}

/// Seconds of processor time of the fields from `from` to `to`, counted after the name.
fn seconds(fields: &[String], from: usize, to: usize) -> f64 {
    let ticks = fields.iter().skip(from).take(to - from).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS
}

/// Seconds of processor time that a process has used.
pub fn cpu_seconds(pid: u32) -> f64 {
    stat(pid).map_or(0.0, |fields| seconds(&fields, 11, 13))
}

/// Seconds of processor time that a process has used with its children, those that ended included.
pub fn family_cpu_seconds(pid: u32) -> f64 {
    let own = stat(pid).map_or(0.0, |fields| seconds(&fields, 11, 15));
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids =
        entries.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    let parent = pid.to_string();
    let children = pids.filter_map(|child| stat(child).ok()).filter(|fields| fields.get(1) == Some(&parent));
    own + children.map(|fields| seconds(&fields, 11, 15)).sum::<f64>()
}

/// A line of `/proc/PID/status`, in MiB.
fn status_mib(pid: u32, name: &str) -> anyhow::Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line
        .and_then(|line| line.split_whitespace().next())
        .context("/proc/PID/status is not as expected")?;
    Ok(kib.parse::<f64>()? / 1024.0)
}

/// What a process has in memory, in MiB.
pub fn memory_mib(pid: u32) -> anyhow::Result<f64> {
    status_mib(pid, "VmRSS")
}

/// The most that a process ever had in memory, in MiB.
pub fn peak_mib(pid: u32) -> anyhow::Result<f64> {
    status_mib(pid, "VmHWM")
}
