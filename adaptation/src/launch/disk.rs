//! Access to a disk that may hang.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;

/// The time limit of one operation on the disk. A busy machine may need seconds.
const LIMIT: Duration = Duration::from_secs(10);

/// Runs blocking disk operations one at a time, each with a time limit. A disk that hangs occupies
/// one thread until it answers; further attempts occupy no more threads.
#[derive(Clone, Debug)]
pub(super) struct Disk(Arc<Semaphore>);

impl Default for Disk {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

impl Disk {
    /// Runs a blocking operation on another thread. Fails with a timeout if the operation, or the
    /// wait for an earlier one, takes too long.
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
