// Package restart decides whether a task that ended, failed to start, or is to be
// restarted runs again, and after what delay. A decision is a pure function of the
// policy, of what happened, of the time, and of the window of earlier restarts, which
// the caller keeps durable.
//
// It knows nothing of runners. Start reading at [Policy.Decide].
package restart
