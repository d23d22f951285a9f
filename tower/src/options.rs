//! The options that all layers have.

/// Defines them on a type with a `setup`.
macro_rules! options {
    () => {
        /// Lets requests go ahead unlimited if this returns true, such as those of a health check.
        pub fn skip(
            mut self,
            skip: impl Fn(&http::request::Parts) -> bool + Send + Sync + 'static,
        ) -> Self {
            self.setup.skip = Some(std::sync::Arc::new(skip));
            self
        }

        /// Lets the preflights of CORS go ahead unlimited: requests of `OPTIONS` with `Origin` and
        /// `Access-Control-Request-Method`. They carry neither credentials nor keys, and come in addition to the
        /// requests that they ask for.
        ///
        /// A layer inside of the one of CORS never sees them, and needs no such option. Outside of it, clients that
        /// send these fields are not limited: let nothing but CORS answer them.
        pub fn skip_preflights(mut self) -> Self {
            self.setup.skip_preflights = true;
            self
        }

        /// Sets the header fields, [`Fields::DRAFT_11`](crate::Fields::DRAFT_11) by default.
        pub fn fields(mut self, fields: crate::Fields) -> Self {
            self.setup.answers.fields = fields;
            self
        }

        /// Sets the answer to requests on which there is no decision: see [`OnError`](crate::OnError).
        pub fn on_error(mut self, on_error: crate::OnError) -> Self {
            self.setup.answers.on_error = on_error;
            self
        }

        /// Answers rejected requests by this function, which may begin with
        /// [`Rejection::response`](crate::Rejection::response). It also sees the reasons for 500, which clients do not.
        pub fn respond(
            mut self,
            respond: impl Fn(&crate::Rejection, &http::request::Parts) -> http::Response<bytes::Bytes>
            + Send
            + Sync
            + 'static,
        ) -> Self {
            self.setup.respond = Some(std::sync::Arc::new(respond));
            self
        }
    };
}

pub(crate) use options;
