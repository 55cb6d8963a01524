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

// Swagger UI leaves what is filled in without a name for those who hear the page.
const nameFields = () => {
  for (const [selector, name] of [
    ["#servers", "Server"],
    [".body-param__text", "Request body"],
  ]) {
    for (const field of document.querySelectorAll(`${selector}:not([aria-label])`)) {
      field.setAttribute("aria-label", name);
    }
  }
};
new MutationObserver(nameFields).observe(document.querySelector("#docs"), {
  childList: true,
  subtree: true,
});
