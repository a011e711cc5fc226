//! PutArchive.

use runner_host::proto::runner_v1::EnvVar;
use tonic::Code;

use crate::archive::{Tar, put, request};
use crate::request::shell;
use crate::runner::{Backend, Builder, Runner};
use crate::{exec, wait};

/// A directory of this test in the container; it is one of this machine on the embedded cluster.
async fn directory(runner: &Runner, id: &str) -> String {
    let path = format!("/tmp/archive-{}", uuid::Uuid::new_v4().simple());
    assert_eq!(run(runner, id, &["mkdir", "-p", &path]).await, "");
    path
}

async fn run(runner: &Runner, id: &str, argv: &[&str]) -> String {
    let outcome = exec::run(runner, id, argv).await;
    String::from_utf8([outcome.stdout, outcome.stderr].concat()).unwrap()
}

/// e2e, S-351 to S-355, C-41, C-42: files arrive whole under their full names, whatever tar the image has.
pub async fn archive_is_unpacked(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let id = runner.start_idle().await;
    let path = directory(&runner, &id).await;
    let long = format!("{}/{}", "é".repeat(50), "x".repeat(120));
    let big: Vec<u8> = (0..3_800_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    let archive = Tar::default()
        .file("hello.txt", b"hello\n")
        .file(&format!("gnu/{long}"), b"gnu")
        .pax_file(&format!("pax/{long}"), b"pax")
        .symlink("ok", "hello.txt")
        .symlink("l1", "l2")
        .symlink("l2", "l1")
        .file("big", &big)
        .bytes();
    put(&runner, &id, &format!(" {path} "), archive).await.unwrap();
    let read = async |name: &str| {
        exec::run(&runner, &id, &["cat", &format!("{path}/{name}")])
            .await
            .stdout
    };
    assert_eq!(read("hello.txt").await, b"hello\n");
    assert_eq!(read("ok").await, b"hello\n");
    assert_eq!(read(&format!("gnu/{long}")).await, b"gnu");
    assert_eq!(read(&format!("pax/{long}")).await, b"pax");
    assert!(read("big").await == big, "the big file is another one");
    assert_eq!(run(&runner, &id, &["readlink", &format!("{path}/l1")]).await, "l2\n");
    assert_eq!(run(&runner, &id, &["readlink", &format!("{path}/l2")]).await, "l1\n");
    // by pod name; an entry that is there is overwritten; no end marker
    let mut again = Tar::default().file("hello.txt", b"again\n").bytes();
    again.truncate(1024);
    put(&runner, &format!("workload-{id}"), &path, again).await.unwrap();
    assert_eq!(read("hello.txt").await, b"again\n");
    // C-43: the same answer for every image
    for zeros in [512, 1024] {
        put(&runner, &id, &path, vec![0; zeros]).await.unwrap();
    }
    run(&runner, &id, &["rm", "-rf", &path]).await;
    runner.stop().await;
}

/// S-353, S-356, S-358, G-21, C-41 (4): tar's own text, and what cannot be put anywhere.
pub async fn archive_failures_are_told(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let id = runner.start_idle().await;
    let path = directory(&runner, &id).await;
    let archive = || Tar::default().file("out/evil", b"x").bytes();
    let missing = put(&runner, &id, &format!("{path}/no/such"), archive())
        .await
        .unwrap_err();
    assert_eq!(missing.code(), Code::Internal);
    assert!(
        missing.message().starts_with("put archive failed: tar: "),
        "{missing:?}"
    );
    assert!(missing.message().contains("No such file or directory"), "{missing:?}");
    // the container's own file is in the way: tar's result, as it is
    run(&runner, &id, &["touch", &format!("{path}/out")]).await;
    let blocked = put(&runner, &id, &path, archive()).await.unwrap_err();
    assert_eq!(blocked.code(), Code::Internal, "{blocked:?}");
    assert!(blocked.message().contains("out"), "{blocked:?}");
    run(&runner, &id, &["rm", "-rf", &path]).await;

    let mut bare = shell("/bin/sleep 600");
    if let Some(main) = &mut bare.main {
        main.env = vec![EnvVar {
            name: "PATH".into(),
            value: "/nonexistent".into(),
        }];
    }
    let bare = runner.begin(bare).await;
    runner.running(&bare).await;
    let lacking = put(&runner, &bare, "/tmp", archive()).await.unwrap_err();
    assert_eq!(lacking.code(), Code::FailedPrecondition, "{lacking:?}");
    let wanted = "put archive failed: the image of container \"main\" has no tar: ";
    assert!(lacking.message().starts_with(wanted), "{lacking:?}");
    runner.stop().await;
}

/// S-358, R-03: a caller that goes away takes its tar with it. Only where the shell takes `tar` from `PATH`: BusyBox's has
/// one of its own.
pub async fn archive_ends_with_its_caller(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let bin = format!("/tmp/archive-bin-{}", uuid::Uuid::new_v4().simple());
    // a time of its own, by which it is found
    let time = 1_000_000_000 + uuid::Uuid::new_v4().as_u128() % 1_000_000_000;
    let script = format!(
        "mkdir -p {bin}; printf '#!/bin/sh\\nsleep {time} & wait\\n' > {bin}/tar; chmod +x {bin}/tar; \
         trap 'rm -rf {bin}; exit 0' TERM; while :; do sleep 1; done"
    );
    let mut start = shell(&script);
    if let Some(main) = &mut start.main {
        main.env = vec![EnvVar {
            name: "PATH".into(),
            value: format!("{bin}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"),
        }];
    }
    let id = runner.begin(start).await;
    runner.running(&id).await;
    let count = format!("ps -o args 2>/dev/null | grep -c '^sleep {time}'");
    let counted = async |wanted: &str| {
        wait::until("the fake tar", async || {
            let seen = run(&runner, &id, &["sh", "-c", &count]).await;
            if seen == format!("{wanted}\n") {
                Ok(())
            } else {
                Err(seen)
            }
        })
        .await;
    };
    let archive = Tar::default().file("f", &[b'x'; 100_000]).bytes();
    wait::until("the script", async || {
        let seen = run(&runner, &id, &["sh", "-c", &format!("test -x {bin}/tar && echo there")]).await;
        if seen == "there\n" { Ok(()) } else { Err(seen) }
    })
    .await;
    {
        let mut client = runner.client();
        let call = client.put_archive(request(&id, "/tmp", archive.clone()));
        tokio::select! {
            end = call => panic!("ended: {end:?}"),
            () = counted("1") => {}
        }
    }
    counted("0").await;
    // the deadline of the caller
    let mut call = tonic::Request::new(request(&id, "/tmp", archive));
    call.set_timeout(std::time::Duration::from_secs(3));
    let late = runner.client().put_archive(call).await.unwrap_err();
    assert!(
        matches!(late.code(), Code::DeadlineExceeded | Code::Cancelled),
        "{late:?}"
    );
    counted("0").await;
    runner.stop().await;
}
