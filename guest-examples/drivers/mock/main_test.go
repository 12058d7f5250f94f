package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
)

// both runs a test natively and against the compiled plugin.
func both(t *testing.T, test func(t *testing.T, node *drivertest.Node, clock *drivertest.Clock)) {
	t.Run("native", func(t *testing.T) {
		clock := drivertest.NewClock()
		test(t, drivertest.New(t, func() driver.Driver { return &mock{now: clock.Now, sleep: clock.Sleep} }), clock)
	})
	t.Run("compiled", func(t *testing.T) {
		clock := drivertest.NewClock()
		test(t, drivertest.NewCompiled(t, guestbuild.Plugin(t, "guest-examples/drivers/mock"), clock), clock)
	})
}

func TestATaskRunsForItsTimeAndEndsAsConfigured(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, clock *drivertest.Clock) {
		task := node.Task(`{"run_for": "5s", "exit_code": 3, "exit_signal": 9, "exit_err_msg": "bye"}`)
		handle, network, err := node.StartTask(task)
		require.NoError(t, err)
		require.Nil(t, network)
		require.Empty(t, handle.WorkloadId)

		result, pollAfter, err := node.WaitTask(task, handle)
		require.NoError(t, err)
		require.Nil(t, result)
		require.LessOrEqual(t, pollAfter, 5*time.Second)
		require.Greater(t, pollAfter, 4*time.Second)

		clock.Sleep(pollAfter)
		for range 2 { // as often as one asks
			result, _, err = node.WaitTask(task, handle)
			require.NoError(t, err)
			require.Equal(t, &driver.ExitResult{ExitCode: 3, Signal: 9, Error: "bye"}, result)
		}
	})
}

func TestAnEmptyConfigEndsAtOnceWithSuccess(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, _ *drivertest.Clock) {
		task := node.Task("")
		handle, _, err := node.StartTask(task)
		require.NoError(t, err)
		result, _, err := node.WaitTask(task, handle)
		require.NoError(t, err)
		require.Equal(t, &driver.ExitResult{}, result)
	})
}

func TestDurationsMayBeNanoseconds(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, clock *drivertest.Clock) {
		task := node.Task(`{"run_for": 60000000000}`)
		handle, _, err := node.StartTask(task)
		require.NoError(t, err)
		clock.Sleep(59 * time.Second)
		result, _, err := node.WaitTask(task, handle)
		require.NoError(t, err)
		require.Nil(t, result)
	})
}

func TestTheSchemaRefusesWhatTheDriverCannotRead(t *testing.T) {
	node := drivertest.New(t, func() driver.Driver { return &mock{} })
	for _, config := range []string{
		`{"run_for": "soon"}`, `{"run_for": -1}`, `{"run_fro": "5s"}`, `{"exit_code": "3"}`, `{"stdout_repeat": -1}`,
		`{"driver_port_map": "http"}`, `{"start_fault": "burn"}`, `{"exec_command": {"command": "x"}}`,
	} {
		_, err := node.TryTask(config)
		require.Error(t, err, config)
	}
}

func TestStartErrorsAreMarkedRecoverableOrNot(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, clock *drivertest.Clock) {
		_, _, err := node.StartTask(node.Task(`{"start_error": "no luck"}`))
		require.EqualError(t, err, "no luck")
		require.False(t, abi.IsRecoverable(err))

		before := clock.Now()
		_, _, err = node.StartTask(node.Task(`{"start_error": "try again", "start_error_recoverable": true, "start_block_for": "3s"}`))
		require.EqualError(t, err, "try again")
		require.True(t, abi.IsRecoverable(err))
		require.GreaterOrEqual(t, clock.Now().Sub(before), 3*time.Second)
	})
}

func TestAnEventIsSentAtTheStart(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, _ *drivertest.Clock) {
		_, _, err := node.StartTask(node.Task(`{"start_error": "no luck", "start_event": "never said"}`))
		require.Error(t, err)
		require.Empty(t, node.Events())
		task := node.Task(`{"start_event": "warming up"}`)
		_, _, err = node.StartTask(task)
		require.NoError(t, err)
		require.Len(t, node.Events(), 1)
		require.Equal(t, task.Id, node.Events()[0].TaskId)
		require.Equal(t, "warming up", node.Events()[0].Message)
	})
}

func TestAnEventIsSentWhenATaskIsRecovered(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, _ *drivertest.Clock) {
		task := node.Task(`{"run_for": "1h", "recover_event": "found again"}`)
		handle, _, err := node.StartTask(task)
		require.NoError(t, err)
		require.Empty(t, node.Events())
		_, err = node.RecoverTask(task, handle)
		require.NoError(t, err)
		require.Len(t, node.Events(), 1)
		require.Equal(t, "found again", node.Events()[0].Message)
	})
}

func TestAStoppedTaskEndsWithSuccessByDefault(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, clock *drivertest.Clock) {
		for config, want := range map[string]*driver.ExitResult{
			`{"run_for": "1h", "exit_code": 1}`:                               {},
			`{"run_for": "1h", "stop_exit_code": 130, "stop_exit_signal": 2}`: {ExitCode: 130, Signal: 2},
		} {
			task := node.Task(config)
			handle, _, err := node.StartTask(task)
			require.NoError(t, err)
			clock.Sleep(time.Minute)
			stopped, err := node.StopTask(task, handle, "SIGINT", 5*time.Second)
			require.NoError(t, err)
			result, _, err := node.WaitTask(task, stopped)
			require.NoError(t, err)
			require.Equal(t, want, result)

			again, err := node.StopTask(task, stopped, "SIGINT", 5*time.Second)
			require.NoError(t, err)
			require.Equal(t, stopped.DriverState, again.DriverState, "a second stop changes nothing")

			status, err := node.InspectTask(task, stopped)
			require.NoError(t, err)
			require.Equal(t, driver.TaskExited, status.State)
			require.Equal(t, want, status.ExitResult)
			require.GreaterOrEqual(t, status.CompletedAtNs-status.StartedAtNs, time.Minute.Nanoseconds())
		}
	})
}

func TestAStubbornTaskIsStoppedAfterKillAfterOrTheTimeout(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, clock *drivertest.Clock) {
		for killAfter, want := range map[string]time.Duration{"2s": 2 * time.Second, "1m": 5 * time.Second} {
			task := node.Task(`{"run_for": "1h", "kill_after": "` + killAfter + `"}`)
			handle, _, err := node.StartTask(task)
			require.NoError(t, err)
			before := clock.Now()
			_, err = node.StopTask(task, handle, "", 5*time.Second)
			require.NoError(t, err)
			require.InDelta(t, want, clock.Now().Sub(before), float64(time.Second))
		}
	})
}

func TestOutputIsWrittenAtTheStartAndThenAtItsTimes(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, clock *drivertest.Clock) {
		task := node.Task(`{"run_for": "1h", "stdout_string": "out\n", "stdout_repeat": 2, "stdout_repeat_duration": "10s",
			"stderr_string": "err\n", "stderr_repeat": 3}`)
		handle, _, err := node.StartTask(task)
		require.NoError(t, err)
		require.Equal(t, "out\n", node.Stdout())
		require.Equal(t, "err\nerr\nerr\nerr\n", node.Stderr())
		for range 3 {
			result, pollAfter, err := node.WaitTask(task, handle)
			require.NoError(t, err)
			require.Nil(t, result)
			clock.Sleep(pollAfter)
		}
		require.Equal(t, "out\nout\nout\n", node.Stdout())
	})
}

func TestSignalsAndStopsCanFail(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, clock *drivertest.Clock) {
		task := node.Task(`{"run_for": "1h", "signal_error": "deaf", "stop_error": "immortal", "recover_error": "lost"}`)
		handle, _, err := node.StartTask(task)
		require.NoError(t, err)
		_, err = node.SignalTask(task, handle, "SIGHUP")
		require.EqualError(t, err, "deaf")
		_, err = node.StopTask(task, handle, "SIGINT", 0)
		require.EqualError(t, err, "immortal")
		_, err = node.RecoverTask(task, handle)
		require.EqualError(t, err, "lost")

		task = node.Task(`{"run_for": "1h"}`)
		handle, _, err = node.StartTask(task)
		require.NoError(t, err)
		same, err := node.SignalTask(task, handle, "SIGHUP")
		require.NoError(t, err)
		require.Equal(t, handle.DriverState, same.DriverState)
		clock.Sleep(2 * time.Hour)
		_, err = node.SignalTask(task, handle, "SIGHUP")
		require.Equal(t, abi.FailedPrecondition, abi.CodeOf(err))
	})
}

func TestARunningTaskIsDestroyedOnlyByForce(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, _ *drivertest.Clock) {
		task := node.Task(`{"run_for": "1h"}`)
		handle, _, err := node.StartTask(task)
		require.NoError(t, err)
		require.Equal(t, abi.FailedPrecondition, abi.CodeOf(node.DestroyTask(task, handle, false)))
		require.NoError(t, node.DestroyTask(task, handle, true))
	})
}

func TestATaskIsRecoveredFromItsHandleAlone(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, clock *drivertest.Clock) {
		task := node.Task(`{"run_for": "10s", "exit_code": 7}`)
		handle, _, err := node.StartTask(task)
		require.NoError(t, err)
		clock.Sleep(4 * time.Second)
		stats, err := node.TaskStats(task, handle)
		require.NoError(t, err)
		require.InDelta(t, 4*time.Second, stats.GetCpuTotalNs(), float64(time.Second))
		recovered, err := node.RecoverTask(task, handle)
		require.NoError(t, err)
		clock.Sleep(time.Minute)
		result, _, err := node.WaitTask(task, recovered)
		require.NoError(t, err)
		require.Equal(t, int32(7), result.ExitCode)

		for _, foreign := range []*driver.TaskHandle{
			{Version: 99, DriverState: handle.DriverState},
			{Version: 1},
			{Version: 1, DriverState: []byte("\xff")},
			{Version: 1, DriverState: []byte(`{"started_ns":1,"config":{"run_for":"soon"}}`)},
		} {
			_, err := node.RecoverTask(task, foreign)
			require.Error(t, err)
		}
	})
}

func TestACommandRunsAsConfigured(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, _ *drivertest.Clock) {
		task := node.Task(`{"run_for": "1h", "exec_command": {"run_for": "1s", "exit_code": 4, "stdout_string": "hi", "stdout_repeat": 1, "stderr_string": "no"}}`)
		handle, _, err := node.StartTask(task)
		require.NoError(t, err)
		result, err := node.ExecTask(task, handle, []string{"anything"}, 5*time.Second)
		require.NoError(t, err)
		require.Equal(t, "hihi", string(result.Stdout))
		require.Equal(t, "no", string(result.Stderr))
		require.Equal(t, int32(4), result.Result.ExitCode)
		_, err = node.ExecTask(task, handle, nil, time.Millisecond)
		require.Equal(t, abi.DeadlineExceeded, abi.CodeOf(err))

		task = node.Task("")
		handle, _, err = node.StartTask(task)
		require.NoError(t, err)
		_, err = node.ExecTask(task, handle, nil, 0)
		require.Equal(t, abi.FailedPrecondition, abi.CodeOf(err))
	})
}

func TestATaskMayHaveANetwork(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, _ *drivertest.Clock) {
		_, network, err := node.StartTask(node.Task(`{"driver_ip": "10.0.0.9", "driver_advertise": true, "driver_port_map": "http:8080"}`))
		require.NoError(t, err)
		require.Equal(t, &driver.Network{Ip: "10.0.0.9", AutoAdvertise: true, PortMap: map[string]uint32{"http": 8080}}, network)
	})
}

func TestTheFingerprintIsThatOfThePluginsConfig(t *testing.T) {
	both(t, func(t *testing.T, node *drivertest.Node, _ *drivertest.Clock) {
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, driver.Healthy, f.Health)
		require.Contains(t, f.Attributes, "driver.mock_driver")

		require.NoError(t, node.Configure(`{"health": "unhealthy", "health_description": "ill", "attributes": {"zone": "b"}, "next_poll": "2s"}`))
		f, err = node.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, driver.Unhealthy, f.Health)
		require.Equal(t, "ill", f.Description)
		require.Equal(t, uint32(2000), f.NextPollMs)
		require.True(t, f.Attributes["driver.mock_driver.zone"].EqualVT(driver.String("b")))

		require.NoError(t, node.Configure(`{"health": "undetected"}`))
		f, err = node.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, driver.Undetected, f.Health)
		require.Empty(t, f.Attributes)

		require.NoError(t, node.Configure(`{"fingerprint_error": "cannot look"}`))
		_, err = node.Fingerprint()
		require.EqualError(t, err, "cannot look")

		require.EqualError(t, node.Configure(`{"configure_error": "not this"}`), "not this")
		require.Error(t, node.Configure(`{"health": "fine"}`))
	})
}

func TestAFaultDuringTheStartIsThatCallsAlone(t *testing.T) {
	node := drivertest.NewCompiled(t, guestbuild.Plugin(t, "guest-examples/drivers/mock"), nil)
	for _, fault := range []string{"trap", "exit"} {
		_, _, err := node.StartTask(node.Task(`{"start_fault": "` + fault + `"}`))
		var f *drivertest.FaultError
		require.ErrorAs(t, err, &f, fault)
	}
	_, err := node.Fingerprint()
	require.NoError(t, err)
}

func TestATaskGoesOnWithAnotherBuildAndAnotherAgent(t *testing.T) {
	clock, wasm := drivertest.NewClock(), guestbuild.Plugin(t, "guest-examples/drivers/mock")
	node := drivertest.NewCompiled(t, wasm, clock)
	task := node.Task(`{"run_for": "5s", "exit_code": 3}`)
	_, _, err := node.StartTask(task)
	require.NoError(t, err)
	clock.Sleep(4 * time.Second)
	require.NoError(t, node.Upgrade(append(wasm[:len(wasm):len(wasm)], "\x00\x03\x01xy"...))) // with another custom section
	require.NoError(t, node.Restart())
	result, _, err := node.WaitTask(task, node.Handle(task))
	require.NoError(t, err)
	require.Nil(t, result)
	clock.Sleep(time.Second)
	result, _, err = node.WaitTask(task, node.Handle(task))
	require.NoError(t, err)
	require.Equal(t, &driver.ExitResult{ExitCode: 3}, result)
}
