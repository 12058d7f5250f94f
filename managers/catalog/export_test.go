package catalog

import "time"

// CouldNotRead reports whether a file could not be read.
func (c *Catalog) CouldNotRead(file string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files.byName[file].unreadable
}

// RetryUnreadable has files that could not be read tried again so often.
func (c *Catalog) RetryUnreadable(every time.Duration) {
	c.wg.Go(func() { c.retryUnreadable(every) })
}
