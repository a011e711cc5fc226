//! PutArchive from outside: what is refused before anything runs, and what an API server that fails means for it. The rest
//! is in the shared cases.

use futures::future::join_all;
use runner_embedded::Action;
use runner_tests::archive::{Tar, put};
use runner_tests::cases::archive_ends_with_its_caller;
use runner_tests::runner::{Backend, main_of};
use runner_tests::{Runner, faults, request, wait};
use tonic::Code;

fn archive() -> Vec<u8> {
    Tar::default().file("f", b"content").bytes()
}

/// S-358, R-03
#[tokio::test(flavor = "multi_thread")]
async fn ends_with_its_caller() {
    archive_ends_with_its_caller(Backend::Embedded).await;
}

/// S-350, S-351, S-102
#[tokio::test(flavor = "multi_thread")]
async fn requests_are_checked() {
    let runner = Runner::start().await;
    let id = runner.start_idle().await;
    for (workload, path, payload, code, message) in [
        (
            " ",
            "/tmp",
            archive(),
            Code::InvalidArgument,
            "workload_id_and_path_required",
        ),
        (&id, " ", vec![], Code::InvalidArgument, "workload_id_and_path_required"),
        (&id, "/tmp/a\0b", archive(), Code::InvalidArgument, "path_invalid: "),
        (
            "missing-workload",
            "/tmp",
            archive(),
            Code::NotFound,
            "resource not found: ",
        ),
        ("a/../b", "/tmp", archive(), Code::NotFound, "resource not found: "),
        // C-41, C-43, S-357
        (
            &id,
            "/tmp",
            vec![],
            Code::InvalidArgument,
            "archive_invalid: the payload is empty",
        ),
        (
            &id,
            "/tmp",
            b"not a tar".to_vec(),
            Code::InvalidArgument,
            "archive_invalid: the payload is not a whole tar",
        ),
        (
            &id,
            "/tmp",
            Tar::default().symlink("d", "/etc").file("d/evil", b"x").bytes(),
            Code::InvalidArgument,
            "archive_invalid: member \"d/evil\": it would be written through the link \"d\"",
        ),
        (
            &id,
            "/tmp",
            Tar::default().raw("../x", b"x").bytes(),
            Code::InvalidArgument,
            "archive_invalid: member \"../x\"",
        ),
        (
            &id,
            "/tmp",
            Tar::default().raw("/x", b"x").bytes(),
            Code::InvalidArgument,
            "archive_invalid: member \"/x\"",
        ),
    ] {
        let refused = put(&runner, workload, path, payload).await.unwrap_err();
        assert_eq!(refused.code(), code, "{refused:?}");
        assert!(refused.message().starts_with(message), "{refused:?}");
    }
    let embedded = runner.embedded().unwrap();
    assert_eq!(
        faults::asked(embedded, "GET", "/exec"),
        0,
        "refused archives are not sent"
    );
    runner.stop().await;
}

/// C-43: the same answer every time.
#[tokio::test(flavor = "multi_thread")]
async fn a_cut_archive_is_refused_a_thousand_times() {
    let runner = Runner::start().await;
    let id = runner.start_idle().await;
    let whole = Tar::default().file("f", &[b'x'; 5000]).bytes();
    for _ in 0..20 {
        let puts = (0..50).map(|_| put(&runner, &id, "/tmp", whole[..3000].to_vec()));
        for end in join_all(puts).await {
            let refused = end.unwrap_err();
            assert_eq!(refused.code(), Code::InvalidArgument);
            assert!(refused.message().contains("ends inside of member \"f\""), "{refused:?}");
        }
    }
    runner.stop().await;
}

/// S-109, S-357, T-06: the largest message, and one that is larger.
#[tokio::test(flavor = "multi_thread")]
async fn up_to_the_message_limit() {
    let runner = Runner::start().await;
    let id = runner.start_idle().await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let just = vec![7_u8; 4 * 1024 * 1024 - 4096];
    put(&runner, &id, path, Tar::default().file("just", &just).bytes())
        .await
        .unwrap();
    assert!(std::fs::read(directory.path().join("just")).unwrap() == just);
    let over = Tar::default().file("over", &vec![7_u8; 4 * 1024 * 1024]).bytes();
    let refused = put(&runner, &id, path, over).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
    runner.stop().await;
}

/// G-21: containers that cannot take anything now, or ever.
#[tokio::test(flavor = "multi_thread")]
async fn containers_that_do_not_run() {
    let runner = Runner::start().await;
    let mut missing = request::shell("echo never");
    if let Some(main) = &mut missing.main {
        main.image = "missing.invalid/x:1".to_owned();
    }
    let waiting = runner.begin(missing).await;
    let ended = runner.begin(request::shell("exit 3")).await;
    for (id, phase, reason) in [(&waiting, "pending", "Pull"), (&ended, "failed", "")] {
        wait::until("the container's state", async || {
            let state = runner.inspect(id).await.unwrap();
            let known = main_of(&state).reason.as_deref().unwrap_or_default().contains(reason);
            if known && state.state_status == phase {
                Ok(())
            } else {
                Err(state)
            }
        })
        .await;
    }
    for (id, why) in [(&waiting, "Pull"), (&ended, "it has ended with code 3")] {
        let refused = put(&runner, id, "/tmp", archive()).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused:?}");
        let wanted = "put archive failed: container \"main\" is not running: ";
        assert!(
            refused.message().starts_with(wanted) && refused.message().contains(why),
            "{refused:?}"
        );
    }
    runner.stop().await;
}

/// G-21, C-43: an exec that is refused, and a connection that is lost on the way.
#[tokio::test(flavor = "multi_thread")]
async fn the_connection_fails() {
    let runner = Runner::start().await;
    let id = runner.start_idle().await;
    let embedded = runner.embedded().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    faults::next(
        embedded,
        "GET",
        "/exec",
        1,
        faults::status(403, "Forbidden", "pods/exec is forbidden"),
    );
    let refused = put(&runner, &id, path, archive()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Internal, "{refused:?}");
    assert_eq!(refused.message(), "put archive failed: pods/exec is forbidden");
    // refused for now: tried again
    faults::next(
        embedded,
        "GET",
        "/exec",
        2,
        faults::status(500, "InternalError", "remote error: tls"),
    );
    put(&runner, &id, path, archive()).await.unwrap();
    assert_eq!(std::fs::read(directory.path().join("f")).unwrap(), b"content");
    faults::next(embedded, "GET", "/exec", 1, Action::CutStream { after: 0 });
    let lost = put(&runner, &id, path, archive()).await.unwrap_err();
    assert_eq!(lost.code(), Code::Unavailable, "{lost:?}");
    assert!(
        lost.message().starts_with("put archive failed: the exec connection "),
        "{lost:?}"
    );
    assert!(
        lost.message().ends_with("some files may have been unpacked"),
        "{lost:?}"
    );
    runner.stop().await;
}
