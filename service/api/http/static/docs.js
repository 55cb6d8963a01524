"use strict";

// validatorUrl: the badge would ask another host.
SwaggerUIBundle({
  url: "/docs/openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  docExpansion: "list",
  tryItOutEnabled: true,
  validatorUrl: null,
});
