"""`GPMethod` lives in `regretless.methods.shared`."""

from regretless.methods.shared import GPMethod as GPMethod
