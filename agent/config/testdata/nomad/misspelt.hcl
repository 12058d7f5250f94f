client {
  enabeld = true
  reserved {
    memroy = 512
  }
}
telemtry {
}
