// Package config is the configuration of a plugin, and of its tasks: the JSON Schema that a plugin
// describes, and what the node hands to it, which it has validated and has the defaults of. A
// configuration is a Go struct whose fields are declared once, for both:
//
//	type task struct {
//		image string
//		args  []string
//	}
//
//	func (t *task) fields(f *config.Fields) {
//		f.String(&t.image, "image", "The image to run.").Required().NotEmpty()
//		f.Strings(&t.args, "args", "The arguments.")
//	}
//
//	var tasks = config.For((*task).fields)
//
// tasks.Schema() is the schema, and tasks.Decode(t.DriverConfig) the struct. What a field becomes in
// a job file stands at its method of [Fields]; what is more of it, at those of [Declaration].
//
// A schema that says what no declaration can, such as which fields go together, is written by hand.
// What is valid under it is read with [Parse], value by value:
//
//	c, err := config.Parse(t.DriverConfig)
//	...
//	image, args := c.Get("image").Text(), c.Get("args").Texts()
//
// The package exists because encoding/json, and the fmt that it brings along, add more than a
// megabyte to a plugin, and reflect alone half of one. A declared struct adds about 50 kB (41 for
// wasi). A driver may use them all the same.
//
// Start reading at [For] and [Fields].
package config
