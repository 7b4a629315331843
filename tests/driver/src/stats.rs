//! The resources that this process uses.

use std::fs;

use crate::clock::Used;
use crate::protocol::Stats;

pub(crate) fn stats(plugins: usize) -> Stats {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rollup = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let used = Used::now();
    Stats {
        rss_kb: number(&status, "VmRSS:"),
        hwm_kb: number(&status, "VmHWM:"),
        anon_kb: number(&status, "RssAnon:"),
        pss_kb: number(&rollup, "Pss:"),
        private_kb: number(&rollup, "Private_Clean:") + number(&rollup, "Private_Dirty:"),
        threads: number(&status, "Threads:"),
        // The descriptor with which they are listed does not count.
        fds: fs::read_dir("/proc/self/fd").map_or(0, Iterator::count).saturating_sub(1),
        utime_us: used.user_us,
        stime_us: used.system_us,
        plugins,
        tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
    }
}

/// Returns the number after a name in one of the kernel's tables.
fn number(table: &str, name: &str) -> u64 {
    let line = table.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
