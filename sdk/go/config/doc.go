// Package config reads the JSON that the node hands to a plugin: its own
// configuration and a task's `config` block. The node has validated both against
// the schemas that the plugin described, and applied their defaults, so a driver
// reads values and has no errors to check:
//
//	c, err := config.Parse(task.DriverConfig)
//	...
//	module, args := c.Get("module").Text(), c.Get("args").Texts()
//
// It exists because encoding/json, and the fmt that it brings along, add more than a
// megabyte to a plugin. A driver that prefers structs may use it all the same.
//
// Start reading at [Parse] and [Value].
package config
