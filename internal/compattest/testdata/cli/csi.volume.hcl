id        = "remote"
name      = "remote"
type      = "csi"
plugin_id = "ebs"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
