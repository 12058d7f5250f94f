# What the driver does on a node that `wasmnode plugin test` plays: a test is steps in order, and
# what is expected of them. Nothing runs, unless a test has real_processes.

test "a task is its script" {
  start {
    config {
      script = "echo $1"
      args   = ["hi"]
    }
    expect {
      handle = { version = 1 }
    }
  }
  expect {
    processes = [{ command = "/bin/sh", args = ["-c", "echo $1", "task", "hi"] }]
  }
}

test "a task ends as its script does" {
  real_processes = true

  start {
    config {
      script = "echo hello; exit 3"
    }
  }
  wait {
    expect {
      result = { exit_code = 3 }
    }
  }
  expect {
    stdout = "hello\n"
  }
}

test "a task outlives the agent and the plugin's upgrade" {
  real_processes = true

  start {
    config {
      script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    }
  }
  expect {
    stdout = "up\n"
  }
  restart_agent {}
  upgrade {} # to the same file; to another with file = "…"
  inspect {
    expect {
      status = { state = "TASK_STATE_RUNNING" }
    }
  }
  stop {
    signal = "SIGTERM"
  }
  wait {
    expect {
      result = { exit_code = 0 }
    }
  }
  expect {
    stdout = "up\nbye\n"
  }
}

test "what the node refuses is the start's error" {
  refuse "process" {
    code    = "PERMISSION_DENIED"
    message = "not granted"
  }
  start {
    config {
      script = "true"
    }
    expect {
      code  = "PERMISSION_DENIED"
      error = contains("not granted")
    }
  }
}

test "a config block that is wrong is refused" {
  start {
    config {
      scirpt = "true"
    }
    expect {
      error = contains("scirpt")
    }
  }
}
