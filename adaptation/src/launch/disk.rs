//! A disk, which may not answer.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long one look at the disk may take. A machine that is busy takes seconds.
const LIMIT: Duration = Duration::from_secs(10);

/// Asked for one thing at a time, each in time. One that does not answer keeps a thread of ours
/// until it does, but not one more with each attempt.
#[derive(Clone, Debug)]
pub(super) struct Disk(Arc<Semaphore>);

impl Default for Disk {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Disk {
    /// Does what waits for the disk, where nobody else waits for it.
    pub(super) async fn ask<T: Send + 'static>(&self, progress: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let asked = async {
            let place = Arc::clone(&self.0).acquire_owned().await.map_err(io::Error::other)?;
            let progress = move || {
                let _place = place;
                progress()
            };
            Ok(tokio::task::spawn_blocking(progress).await?)
        };
        timeout(LIMIT, asked).await?
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::sync::mpsc;

    use super::Disk;
    use super::LIMIT;

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_does_not_answer_is_waited_for_in_time_and_by_one_thread() {
        let disk = Disk::default();
        let (answer, answers) = mpsc::channel::<()>();
        let over = async { tokio::time::advance(LIMIT).await };
        let (stuck, ()) = tokio::join!(disk.ask(move || answers.recv()), over);
        assert_eq!(stuck.unwrap_err().kind(), ErrorKind::TimedOut);
        let over = async { tokio::time::advance(LIMIT).await };
        let (second, ()) = tokio::join!(disk.ask(|| panic!("one is stuck already")), over);
        assert_eq!(second.unwrap_err().kind(), ErrorKind::TimedOut);
        answer.send(()).unwrap();
        assert_eq!(disk.ask(|| 1).await.unwrap(), 1);
    }
}
