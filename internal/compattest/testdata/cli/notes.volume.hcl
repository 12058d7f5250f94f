name      = "notes"
type      = "host"
plugin_id = "mkdir"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
