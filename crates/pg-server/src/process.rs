//! Processes: run one with a bound, signal them, look them up in `/proc`, wait for something with a bound.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{PgServerError, io};

/// How often something that is waited for is looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// Looks until there is something, or an error, or `limit` is over.
pub(crate) fn poll<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> Result<Option<T>, PgServerError>,
) -> Result<T, PgServerError> {
    let begin = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if begin.elapsed() >= limit {
            return Err(PgServerError::TooSlow { what: what.into(), limit });
        }
        thread::sleep(GLANCE);
    }
}

/// Waits for the end of a child.
pub(crate) fn wait(child: &mut Child, what: &str, limit: Duration) -> Result<ExitStatus, PgServerError> {
    poll(what, limit, || child.try_wait().map_err(io(format!("wait for {what}"))))
}

/// Runs a program to its end with `input`; one that takes longer than `limit` is killed. A failure is an error.
pub(crate) fn run(command: &mut Command, input: &str, limit: Duration) -> Result<String, PgServerError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let doing = || io(format!("run {program}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(doing())?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (ended, stdout, stderr) = thread::scope(|scope| {
        scope.spawn(move || {
            // A program that ends without reading all of it says why in its own words.
            stdin.map(|mut pipe| pipe.write_all(input.as_bytes()))
        });
        let stdout = scope.spawn(|| drain(stdout));
        let stderr = scope.spawn(|| drain(stderr));
        let ended = wait(&mut child, &format!("the end of {program}"), limit);
        if ended.is_err() {
            // Ends the pipes, and so the threads.
            let _ = child.kill();
            let _ = child.wait();
        }
        (ended, stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default())
    });
    let output = Output { status: ended?, stdout, stderr };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(PgServerError::Failed { program, status: output.status.to_string(), output: said })
}

/// Sends a signal, by its name without `SIG`. That some of the processes are gone is not an error: look.
pub(crate) fn signal(name: &str, pids: &[u32]) -> Result<(), PgServerError> {
    if pids.is_empty() {
        return Ok(());
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", "name=$1; shift; for pid; do kill -s \"$name\" \"$pid\"; done", "sh", name]);
    shell
        .args(pids.iter().map(u32::to_string))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    shell.status().map_err(io(format!("send {name}")))?;
    Ok(())
}

/// The state letter of a process; none if there is no such process.
pub(crate) fn state(pid: u32) -> Option<char> {
    stat(pid).map(|(state, _)| state)
}

/// Whether a process is gone, or is only waiting to be reaped.
pub(crate) fn is_gone(pid: u32) -> bool {
    matches!(state(pid), None | Some('Z' | 'X'))
}

/// The processes that `parent` started and hasn't reaped.
pub(crate) fn children_of(parent: u32) -> Result<Vec<u32>, PgServerError> {
    let entries = fs::read_dir("/proc").map_err(io("read /proc"))?;
    let pids = entries.filter_map(Result::ok).filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    Ok(pids.filter(|pid| stat(*pid).is_some_and(|(_, its_parent)| its_parent == parent)).collect())
}

fn stat(pid: u32) -> Option<(char, u32)> {
    // `pid (name) state parent …`; the name may hold anything.
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(") ")?.1.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn drain(pipe: Option<impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        // What was read before an error is still worth showing.
        let _ = pipe.read_to_end(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn a_program_gets_its_input_and_gives_its_output_however_long() {
        let input = "x".repeat(1_000_000);
        assert_eq!(run(&mut Command::new("cat"), &input, LONG).unwrap(), input);
    }

    #[test]
    fn a_failure_says_what_the_program_said() {
        let error = run(Command::new("sh").args(["-c", "echo no >&2; exit 3"]), "", LONG).unwrap_err();
        assert_eq!(error.to_string(), "sh failed (exit status: 3): no");
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed() {
        let error = run(Command::new("sleep").arg("1000"), "", Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, PgServerError::TooSlow { .. }), "{error}");
    }

    #[test]
    fn children_are_found_and_signalled() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        assert!(children_of(std::process::id()).unwrap().contains(&child.id()));
        signal("STOP", &[child.id()]).unwrap();
        poll("the stop", LONG, || Ok((state(child.id()) == Some('T')).then_some(()))).unwrap();
        signal("KILL", &[child.id()]).unwrap();
        poll("the end", LONG, || Ok(is_gone(child.id()).then_some(()))).unwrap();
        wait(&mut child, "the child", LONG).unwrap();
    }
}
