package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
)

// guestAgent answers as QEMU's does, after an answer that was for somebody else and one to the byte
// that is no text. At guest-shutdown it says what it is given, or ends the machine with nothing.
func guestAgent(l net.Listener, refusal string, shutDown func()) {
	conn, err := l.Accept()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, `{"return": 7}`+"\n")
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		command, reset := strings.CutPrefix(lines.Text(), "\xff")
		if reset {
			_, _ = io.WriteString(conn, `{"error": {"class": "GenericError", "desc": "JSON parse error"}}`+"\n")
		}
		var id int
		_, err := fmt.Sscanf(command, `{"execute":"guest-sync","arguments":{"id":%d}}`, &id)
		switch {
		case err == nil:
			_, _ = fmt.Fprintf(conn, "{\"return\": %d}\n", id)
		case command != `{"execute":"guest-shutdown","arguments":{"mode":"powerdown"}}`:
			_, _ = io.WriteString(conn, `{"error": {"class": "CommandNotFound", "desc": "what?"}}`+"\n")
		case refusal != "":
			_, _ = io.WriteString(conn, refusal+"\n")
		default:
			shutDown()
			return
		}
	}
}

func TestAStopAsksTheGuestAgentFirst(t *testing.T) {
	both(t, `{}`, func(t *testing.T, node *drivertest.Node) {
		for name, c := range map[string]struct {
			agent   bool
			refusal string
			said    []string // to the monitor
			event   string
		}{
			"it shuts down":        {true, "", []string{"qmp_capabilities"}, ""},
			"it refuses":           {true, `{"error": {"class": "GenericError", "desc": "no shutdown here"}}`, []string{"qmp_capabilities", "system_powerdown"}, "The guest agent does not shut the machine down: no shutdown here: the machine's power button is pressed"},
			"it refuses at length": {true, `{"error": {"desc": "` + strings.Repeat("x", 65_000) + `"}}`, []string{"qmp_capabilities", "system_powerdown"}, "The guest agent does not shut the machine down: " + strings.Repeat("x", refusalBytes) + ": the"},
			"it talks and talks":   {true, strings.Repeat(`{"return": {}}`+"\n", agentBytes/15+1), []string{"qmp_capabilities", "system_powerdown"}, "The guest agent says more than 1 MiB: "},
			"nobody has made":      {false, "", []string{"qmp_capabilities", "system_powerdown"}, "The guest agent is not reached: "},
		} {
			t.Run(name, func(t *testing.T) {
				before := len(node.Events())
				task := node.Task(`{"image_path": "i", "graceful_shutdown": true, "guest_agent": true}`)
				handle, _, err := node.StartTask(task)
				require.NoError(t, err)
				monitor := node.Listen(task.Directories.Task + "/qmp.sock")
				off := make(chan struct{})
				got := emulatorUntil(monitor, off, "system_powerdown")
				if c.agent {
					go guestAgent(node.Listen(task.Directories.Task+"/qa.sock"), c.refusal, func() { close(off) })
				}
				_, err = node.StopTask(task, handle, "SIGINT", time.Minute)
				require.NoError(t, err)
				var said []string
				for command := range got {
					said = append(said, command)
				}
				require.Equal(t, c.said, said)
				events := node.Events()[before:]
				if c.event == "" {
					require.Empty(t, events)
					return
				}
				require.Len(t, events, 1)
				require.Contains(t, events[0].Message, c.event)
			})
		}
	})
}

// withAgent is a task that runs, whose guest may have an agent.
func withAgent(node *drivertest.Node) (*driver.TaskConfig, *driver.TaskHandle) {
	task := node.Task(`{"image_path": "i"}`)
	return task, &driver.TaskHandle{Version: 1, DriverState: []byte(task.Directories.Task + "/qmp.sock\x00" + task.Directories.Task + "/qa.sock")}
}

// An agent may take the command, and nothing comes of it.
func TestAMachineThatItsAgentDoesNotShutDownHasItsButtonPressed(t *testing.T) {
	t.Parallel()
	node := drivertest.New(t, func() driver.Driver { return &qemu{} })
	require.NoError(t, node.Configure(`{}`))
	task, handle := withAgent(node)
	got := emulatorUntil(node.Listen(task.Directories.Task+"/qmp.sock"), nil, "quit")
	go guestAgent(node.Listen(task.Directories.Task+"/qa.sock"), `{"return": {}}`, nil)
	_, err := node.StopTask(task, handle, "SIGINT", 4*time.Second)
	require.NoError(t, err)
	for _, command := range []string{"qmp_capabilities", "system_powerdown", "quit"} {
		require.Equal(t, command, <-got)
	}
	require.Len(t, node.Events(), 2)
	require.Equal(t, "The guest agent has not shut the machine down in half of the time: the machine's power button is pressed", node.Events()[0].Message)
	require.Equal(t, "The machine runs on 4s after it was told to switch itself off: it is switched off", node.Events()[1].Message)
}

// An agent that is there and says nothing, as where none runs in the guest or another program has
// its channel, delays the power button by a bounded time.
func TestAGuestAgentThatDoesNotAnswerIsNotWaitedFor(t *testing.T) {
	for name, says := range map[string]string{
		"nothing":                    "",
		"the answer to another call": `{"return": {}}` + "\n" + `{"return": 1}` + "\n",
		"answers without end":        strings.Repeat(`{"return": 1}`+"\n", agentBytes/14+1),
		"no end of a line":           strings.Repeat("x", 1<<17),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := drivertest.New(t, func() driver.Driver { return &qemu{} })
			require.NoError(t, node.Configure(`{}`))
			task, handle := withAgent(node)
			got := emulatorUntil(node.Listen(task.Directories.Task+"/qmp.sock"), nil, "system_powerdown")
			agent := node.Listen(task.Directories.Task + "/qa.sock")
			go func() {
				if conn, err := agent.Accept(); err == nil {
					_, _ = io.WriteString(conn, says)
					_, _ = io.Copy(io.Discard, conn)
					_ = conn.Close()
				}
			}()
			_, err := node.StopTask(task, handle, "SIGINT", 8*time.Second)
			require.NoError(t, err)
			require.Equal(t, "qmp_capabilities", <-got)
			require.Equal(t, "system_powerdown", <-got)
			require.Len(t, node.Events(), 1)
			require.Contains(t, node.Events()[0].Message, "The guest agent ")
			require.Contains(t, node.Events()[0].Message, ": the machine's power button is pressed")
		})
	}
}
