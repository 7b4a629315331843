//! Normal forms of file system paths and sysctl names, which can be spelled in several ways.
//!
//! Text that is in its normal form already is borrowed, without an allocation.

use std::borrow::Cow;

/// Returns the normal form of an absolute path, as Go's `filepath.Clean` does.
///
/// The normal form has no `//`, `.`, `..` or trailing slash. Symbolic links are not resolved. A
/// path that is not absolute is returned unchanged.
///
/// ```
/// use nri_proto::spelling::path;
///
/// assert_eq!(path("/etc/./x//y/"), "/etc/x/y");
/// assert_eq!(path("/a/../../b"), "/b");
/// ```
pub fn path(path: &str) -> Cow<'_, str> {
    let Some(below) = path.strip_prefix('/') else { return path.into() };
    if below.is_empty() || below.split('/').all(|part| !matches!(part, "" | "." | "..")) {
        return path.into();
    }
    let mut parts = Vec::new();
    for part in below.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    ["/", &parts.join("/")].concat().into()
}

/// Returns the normal form of a kernel parameter's name: parts separated by dots, as in sysctl(8).
///
/// If the first separator in `name` is a slash, slashes and dots are swapped first. A slash that
/// remains after that stands for a dot in the name of a network interface. In other places a slash
/// separates parts, as runtimes read it: no other kernel parameter has a dot within a part. Empty
/// parts are left out.
///
/// ```
/// use nri_proto::spelling::sysctl;
///
/// assert_eq!(sysctl("net/ipv4/ip_forward"), "net.ipv4.ip_forward");
/// assert_eq!(sysctl("net/ipv4/conf/eth0.100/mtu"), "net.ipv4.conf.eth0/100.mtu");
/// ```
pub fn sysctl(name: &str) -> Cow<'_, str> {
    let is_plain = !name.contains('/') && name.split('.').all(|part| !part.is_empty());
    if is_plain {
        return name.into();
    }
    let has_slashes = name.find(['/', '.']).is_some_and(|at| name.as_bytes()[at] == b'/');
    let swapped = |letter| match letter {
        '/' => '.',
        '.' => '/',
        letter => letter,
    };
    let dotted: String = if has_slashes { name.chars().map(swapped).collect() } else { name.to_owned() };
    // A part that consists of slashes is a `.` or `..` of a path.
    let parts: Vec<&str> = dotted.split('.').filter(|part| !part.trim_matches('/').is_empty()).collect();
    let interface = match parts[..] {
        ["net", family, "conf" | "neigh", _, ..] if !family.contains('/') => Some(3),
        _ => None,
    };
    let mut plain = Vec::new();
    for (at, part) in parts.into_iter().enumerate() {
        if Some(at) == interface {
            plain.push(part);
        } else {
            plain.extend(part.split('/').filter(|part| !part.is_empty()));
        }
    }
    if plain.is_empty() { name.into() } else { plain.join(".").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(spell: fn(&str) -> Cow<'_, str>, plain: &str, others: &[&str]) {
        assert!(matches!(spell(plain), Cow::Borrowed(same) if same == plain), "{plain} is spelled plainly already");
        for other in others {
            assert_eq!(spell(other), plain, "{other}");
        }
    }

    #[test]
    fn a_path_has_one_plain_spelling() {
        check(path, "/etc/x", &["/etc//x", "/etc/./x", "/etc/x/", "//etc/x", "/./etc/x/.", "/a/../etc/x", "/../etc/x"]);
        check(path, "/", &["//", "/.", "/..", "/a/.."]);
        check(path, "/...", &["/.../"]);
        for path_like in ["", ".", "etc//x", "./x/", "..", "-/x/"] {
            check(path, path_like, &[]);
        }
    }

    #[test]
    fn a_kernel_parameter_has_one_plain_spelling() {
        let others =
            ["net/ipv4/a", "net.ipv4/a", "net/ipv4.a", "net..ipv4.a", "/net/ipv4/a", "net/ipv4/./a", "net.ipv4.a."];
        check(sysctl, "net.ipv4.a", &others);
        let others = ["net/ipv4/conf/eth0.1/a", "net/ipv4/conf/./eth0.1/a", "net.ipv4.conf.eth0/1..a"];
        assert_eq!(sysctl("net.ipv4.conf.eth0/1.a"), "net.ipv4.conf.eth0/1.a");
        others.iter().for_each(|other| assert_eq!(sysctl(other), "net.ipv4.conf.eth0/1.a", "{other}"));
        check(sysctl, "kernel.shm_rmid_forced", &["kernel/shm_rmid_forced"]);
        check(sysctl, "a", &["/a", "a/", "a."]);
        check(sysctl, "net.conf.x.y.z", &["net..conf.x/y.z", "net/conf/x.y/z"]);
        check(sysctl, "net.ip.v4.conf.a.b", &["net.ip/v4.conf.a/b"]);
        for nothing in ["", ".", "/", "./"] {
            assert_eq!(sysctl(nothing), nothing);
        }
    }

    #[test]
    fn a_plain_spelling_stays() {
        let pieces = ["/", ".", "..", "a", "net", "conf", "-", "eth0"];
        let mut texts = vec![String::new()];
        for _ in 0..5 {
            texts = texts.iter().flat_map(|text| pieces.map(|piece| format!("{text}{piece}"))).collect();
            for text in &texts {
                assert_eq!(path(&path(text)), path(text), "{text}");
                assert_eq!(sysctl(&sysctl(text)), sysctl(text), "{text}");
            }
        }
    }
}
