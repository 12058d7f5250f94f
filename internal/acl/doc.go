// Package acl has the language of ACL policies, which is Nomad's: what their rules are and what
// follows from those for a caller. It knows neither requests nor who has which policy.
//
// Start reading at [ParseRules], then [RightsOf]; a [Book] has each policy read once.
package acl
