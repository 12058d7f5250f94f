client {
  host_volume "orders" {
    path = "/srv/nomad/orders"
  }
  host_volume "certificates" {
    path      = "/srv/nomad/certificates"
    read_only = true
  }
  host_volumes_dir      = "/srv/nomad/made"
  host_volume_plugin_dir = "/srv/nomad/makers"

  chroot_env {
    "/bin"      = "/bin"
    "/usr/bin"  = "/usr/bin"
  }
}
