// A tool is what the model is told, and a function that gets a call's arguments.
const lamp = document.querySelector("#lamp");

document.querySelector("areole-assistant").tools = [
  {
    name: "set_lamp",
    description: "Switch the lamp on or off.",
    parameters: {
      type: "object",
      properties: { state: { type: "string", enum: ["on", "off"] } },
      required: ["state"],
    },
    run: ({ state }) => {
      lamp.value = state;
      return { lamp: state };
    },
  },
];
