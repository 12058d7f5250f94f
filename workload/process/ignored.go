package process

import (
	"os"
	"os/signal"
	"syscall"
)

// handleIgnored has children begin with the ordinary handling of signals: one that
// this process was started to ignore, as nohup does with SIGHUP, is ignored by
// children too, but one that is handled here is not. Nothing comes of it here.
func handleIgnored() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}
