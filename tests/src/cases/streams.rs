//! Logs and exec.

use runner_host::proto::runner_v1::exec_request::Msg;
use runner_host::proto::runner_v1::exec_response::Event;
use runner_host::proto::runner_v1::*;

use crate::request::shell;
use crate::runner::{Backend, Builder};
use crate::{exec, logs, wait};

/// S-404, S-413, S-415, C-10: a followed log has every line and ends with OK when the container ends.
pub async fn log_follows_to_the_end(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let id = runner.begin(shell("echo one >&2; sleep 2; echo two; echo three")).await;
    // opened before the container runs
    let log = logs::read(&runner, logs::request(&id, "main", true)).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&log), "one\ntwo\nthree\n");
    // C-10 (b): once more, after the end
    let again = logs::read(&runner, logs::request(&id, "main", true)).await.unwrap();
    assert_eq!(again, log);
    runner.stop().await;
}

/// S-405: the last lines only.
pub async fn log_snapshot_has_the_tail(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let id = runner
        .start_shell("for n in 1 2 3 4; do echo line $n; done; exec sleep 600")
        .await;
    let mut wanted = logs::request(&id, "main", false);
    wanted.tail_lines = 2;
    wait::until("the tail", async || {
        let log = logs::read(&runner, wanted.clone())
            .await
            .map_err(|status| status.to_string())?;
        if log == b"line 3\nline 4\n" {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&log).into_owned())
        }
    })
    .await;
    runner.stop().await;
}

/// S-601, S-621, S-631, S-671: output of both streams, and the code of the command.
pub async fn exec_returns_output_and_code(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let id = runner.start_idle().await;
    let target = format!("workload-{id}");
    let outcome = exec::run(&runner, &target, &["sh", "-c", "echo out; echo err >&2; exit 7"]).await;
    assert_eq!(outcome.stdout, b"out\n");
    assert_eq!(outcome.stderr, b"err\n");
    let exit = outcome.exit.unwrap();
    assert_eq!(
        (exit.exit_code, exit.reason(), exit.killed),
        (7, ExecExitReason::Completed, false)
    );
    assert_eq!(
        (&exit.stdout_tail[..], &exit.stderr_tail[..]),
        (&b"out\n"[..], &b"err\n"[..])
    );
    assert_eq!(exit.execution_id, outcome.execution_id);
    runner.stop().await;
}

/// S-604, S-662, N-02: what is written to stdin arrives whole, and its end does too.
pub async fn exec_reads_stdin_to_its_end(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let id = runner.start_idle().await;
    let start = ExecStartRequest {
        target_id: format!("workload-{id}"),
        command_argv: vec!["cat".into()],
        ..ExecStartRequest::default()
    };
    let data: Vec<u8> = (0..200_000_u32).map(|n| (n % 251) as u8).collect();
    let mut messages = vec![Msg::Start(start)];
    messages.extend(data.chunks(16 * 1024).map(|chunk| {
        Msg::Stdin(ExecStdin {
            data: chunk.to_vec().into(),
            eof: false,
        })
    }));
    messages.push(Msg::Stdin(ExecStdin {
        data: Default::default(),
        eof: true,
    }));
    let outcome = exec::talk(&runner, messages).await;
    assert_eq!(outcome.exit.unwrap().exit_code, 0);
    assert!(
        outcome.stdout == data,
        "{} of {} bytes came back",
        outcome.stdout.len(),
        data.len()
    );
    runner.stop().await;
}

/// S-675, S-681, G-01, R-03: cancel ends the call and the process.
pub async fn exec_is_cancelled(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let id = runner.start_idle().await;
    let target = format!("workload-{id}");
    let start = ExecStartRequest {
        target_id: target.clone(),
        command_argv: vec!["sleep".into(), "54321".into()],
        ..ExecStartRequest::default()
    };
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    sender
        .send(ExecRequest {
            msg: Some(Msg::Start(start)),
        })
        .await
        .unwrap();
    let requests = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let mut events = runner.client().exec(requests).await.unwrap().into_inner();
    let Some(Event::Started(started)) = events.message().await.unwrap().unwrap().event else {
        panic!("not started")
    };
    let count = "ps -o args 2>/dev/null | grep -c '[s]leep 54321'";
    wait::until("the process", async || {
        let seen = exec::run(&runner, &target, &["sh", "-c", count]).await.stdout;
        if seen == b"1\n" {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&seen).into_owned())
        }
    })
    .await;

    let cancel = CancelExecutionRequest {
        execution_id: started.execution_id,
        force: true,
    };
    assert!(
        runner
            .client()
            .cancel_execution(cancel.clone())
            .await
            .unwrap()
            .into_inner()
            .cancelled
    );
    let end = tokio::time::timeout(wait::LIMIT, events.message())
        .await
        .expect("no exit event")
        .unwrap()
        .unwrap();
    let Some(Event::Exit(exit)) = end.event else {
        panic!("not an exit: {end:?}")
    };
    assert_eq!(exit.reason(), ExecExitReason::Cancelled);
    assert_eq!(exit.exit_code, 0);
    wait::until("the process to be gone", async || {
        let seen = exec::run(&runner, &target, &["sh", "-c", count]).await.stdout;
        if seen == b"0\n" {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&seen).into_owned())
        }
    })
    .await;
    wait::until("the execution to leave the table", async || {
        let known = runner
            .client()
            .cancel_execution(cancel.clone())
            .await
            .unwrap()
            .into_inner()
            .cancelled;
        if known { Err("still known") } else { Ok(()) }
    })
    .await;
    runner.stop().await;
}

/// C-03: the end of input on a terminal, sent at once and after a line that is not complete; no output is lost by it.
pub async fn exec_on_a_terminal_ends(backend: Backend) {
    let runner = Builder::new(backend).start().await;
    let id = runner.start_idle().await;
    let on_terminal = async |argv: &[&str], input: &'static [u8]| {
        let start = ExecStartRequest {
            target_id: id.clone(),
            command_argv: argv.iter().map(|&a| a.to_owned()).collect(),
            options: Some(ExecOptions {
                tty: true,
                ..ExecOptions::default()
            }),
            ..ExecStartRequest::default()
        };
        let end = ExecStdin {
            data: input.into(),
            eof: true,
        };
        let outcome = exec::talk(&runner, vec![Msg::Start(start), Msg::Stdin(end)]).await;
        assert_eq!(outcome.exit.unwrap().exit_code, 0);
        String::from_utf8_lossy(&outcome.stdout).into_owned()
    };
    for _ in 0..20 {
        let shown = on_terminal(&["sh", "-c", "test -t 0 && echo mytext_128"], b"").await;
        assert!(shown.contains("mytext_128\r\n"), "{shown:?}");
    }
    let shown = on_terminal(&["sh", "-c", "cat > /dev/null; echo done"], b"half a line").await;
    assert!(shown.ends_with("done\r\n"), "{shown:?}");
    runner.stop().await;
}
