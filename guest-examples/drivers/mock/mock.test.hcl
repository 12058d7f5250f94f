# What the mock driver does: bin/wasmnode plugin test -tests guest-examples/drivers/mock bin/plugins/mock_driver.wasm

test "a task runs for as long as it says, and ends so" {
  start {
    config {
      run_for   = "1h"
      exit_code = 3
    }
  }
  advance {
    by = "30m"
  }
  inspect {
    expect {
      status = { state = "TASK_STATE_RUNNING" }
    }
  }
  wait {
    within = "30m"
    expect {
      result = { exit_code = 3, signal = 0 }
    }
  }
}

test "a task that runs for longer is not awaited" {
  start {
    config {
      run_for = "1h"
    }
  }
  wait {
    within = "1m"
    expect {
      code  = "DEADLINE_EXCEEDED"
      error = "the task still runs after 1m0s"
    }
  }
}

test "a task outlives a restart of the agent and an upgrade" {
  start {
    config {
      run_for       = "1h"
      start_event   = "born"
      recover_event = "found"
    }
  }
  restart_agent {}
  upgrade {}
  expect {
    events = [{ message = "born" }, { message = "found" }, { message = "found" }]
  }
  stop {
    timeout = "1s"
  }
  inspect {
    expect {
      status = { state = "TASK_STATE_EXITED" }
    }
  }
  destroy {}
}

test "two tasks have their own output and end" {
  start "first" {
    config {
      run_for       = "1m"
      stdout_string = "one\n"
    }
  }
  start "second" {
    config {
      run_for       = "2m"
      stderr_string = "two\n"
    }
  }
  wait "first" {
    within = "1m"
  }
  inspect "second" {
    expect {
      status = { state = "TASK_STATE_RUNNING" }
    }
  }
  expect {
    stdout = "one\n"
    stderr = contains("tw")
  }
}

test "a start fails as it is told to" {
  start {
    config {
      start_error = "no room"
    }
    expect {
      error = "no room"
      code  = matches("^[A-Z_]+$")
    }
  }
  start "broken" {
    config {
      start_fault = "trap"
    }
    expect {
      error = contains("fault")
      code  = ""
    }
  }
}

test "a config block that is wrong is refused in the node's words" {
  start {
    config {
      run_fro = "1h"
    }
    expect {
      error = contains("config.run_fro: unknown field")
    }
  }
}
