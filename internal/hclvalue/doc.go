// Package hclvalue is what the readers of HCL files have in common: a parser that
// stays within bounds, messages on one line each, and the way from HCL values, and from
// bodies that have no schema, to plain Go data in the shape in which Nomad hands a
// driver's configuration on. It knows nothing of jobs or agents.
//
// Start reading at [ParseFile], then [Body].
package hclvalue
